package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sboms writes, for each platform, a CycloneDX list of the modules in the programs. It reads
// the list from the programs themselves.
func sboms(r *release, builds []*build) error {
	for _, b := range builds {
		modules := map[string]cdx.Component{}
		for _, path := range b.programs() {
			info, err := buildinfo.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range info.Deps {
				if m.Replace != nil {
					m = m.Replace
				}
				url := "pkg:golang/" + m.Path + "@" + m.Version
				modules[url] = cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url}
			}
			url := "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")
			modules[url] = cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: "std", Version: info.GoVersion, PackageURL: url}
		}
		var list []cdx.Component
		for _, c := range modules {
			list = append(list, c)
		}
		slices.SortFunc(list, func(a, b cdx.Component) int { return strings.Compare(a.BOMRef, b.BOMRef) })
		bom := cdx.NewBOM()
		bom.Metadata = &cdx.Metadata{
			Timestamp: r.date.Format(time.RFC3339),
			Component: &cdx.Component{Type: cdx.ComponentTypeApplication, Name: "toolroom", Version: r.version.semver, PackageURL: "pkg:golang/github.com/toolroom/toolroom@" + r.version.semver},
		}
		bom.Components = &list
		name := fmt.Sprintf("toolroom-%s-%s-%s.cdx.json", r.version.semver, b.os, b.arch)
		if err := create(r.file(name), func(w io.Writer) error {
			return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
		}); err != nil {
			return err
		}
	}
	return nil
}

// checksumFile lists the packages in the format of sha256sum.
const checksumFile = "SHA256SUMS"

func checksums(r *release, _ []*build) error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		sum, err := sumFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, f.Name())
	}
	return os.WriteFile(r.file(checksumFile), []byte(text.String()), 0o644)
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
