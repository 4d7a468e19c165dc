package function

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// publicRegistry is the registry in the addresses of locks. npm replaces it by the registry that
// it is configured with, so that a lock does not depend on where it was made.
const publicRegistry = "https://registry.npmjs.org"

// maxManifest limits the size of a package.json in a tarball.
const maxManifest = 4 << 20

// serveTarballs serves the npm packages of a folder as a registry on this machine.
func serveTarballs(folder string) (address string, stop func(), err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil || len(names) == 0 {
		return "", nil, toolroom.Errorf(toolroom.CodeNotFound, "the folder %s has no tarballs (*.tgz)", folder).WithHint("npm pack NAME makes one")
	}
	versions, files := map[string]map[string]any{}, map[string]string{}
	for _, name := range names {
		one, err := readTarball(name)
		if err != nil {
			return "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is no npm package: %w", name, err)
		}
		project, version := fmt.Sprint(one["name"]), fmt.Sprint(one["version"])
		at := fmt.Sprintf("/%s/-/%s-%s.tgz", project, path.Base(project), version)
		one["dist"].(map[string]any)["tarball"] = publicRegistry + at
		files[at] = name
		if versions[project] == nil {
			versions[project] = map[string]any{}
		}
		versions[project][version] = one
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if file, ok := files[r.URL.Path]; ok {
			http.ServeFile(w, r, file)
			return
		}
		project := strings.TrimPrefix(r.URL.Path, "/")
		found, ok := versions[project]
		if !ok {
			http.Error(w, `{"error":"the folder has no such package"}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"name": project, "dist-tags": map[string]any{}, "versions": found})
	})}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}

// readTarball returns the package.json of a tarball with the members that a registry adds, such
// as its integrity.
func readTarball(name string) (map[string]any, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha512.New()
	whole := io.TeeReader(f, sum)
	unzipped, err := gzip.NewReader(whole)
	if err != nil {
		return nil, err
	}
	var p map[string]any
	gyp := false
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch _, inside, _ := strings.Cut(path.Clean(header.Name), "/"); inside {
		case PackageFile:
			if err := json.NewDecoder(io.LimitReader(archive, maxManifest)).Decode(&p); err != nil {
				return nil, err
			}
		case "binding.gyp":
			gyp = true
		}
	}
	if p == nil {
		return nil, errors.New("it has no " + PackageFile)
	}
	if _, err := io.Copy(io.Discard, whole); err != nil {
		return nil, err
	}
	scripts, _ := p["scripts"].(map[string]any)
	p["hasInstallScript"] = gyp || scripts["preinstall"] != nil || scripts["install"] != nil || scripts["postinstall"] != nil
	p["dist"] = map[string]any{"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum.Sum(nil))}
	return p, nil
}
