package room

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/install"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/source/function/layer"
)

// functionPython is the interpreter of the engine py-native.
const functionPython = "/usr/bin/python3"

func (r *Room) layers() layer.Store {
	return layer.Store{Folder: filepath.Join(r.home, "packages"), Client: &http.Client{Timeout: fetchTimeout}}
}

const fetchTimeout = 10 * time.Minute

// resolveDependencies locks the dependencies of a spec and unpacks them into a layer.
func (r *Room) resolveDependencies(ctx context.Context, spec *release.Spec, wheels string) error {
	if len(spec.Requires) == 0 {
		return nil
	}
	searchPath, _ := r.lookupEnv("PATH")
	uv, err := install.UV().Find(r.home, searchPath)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "packages are resolved by uv, which is not installed").
			WithCLIHint("install it: toolroom setup packages")
	}
	if _, err := os.Stat(functionPython); err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "functions with packages need %s", functionPython).WithHint("install python3")
	}
	resolver := layer.Resolver{UV: uv, Python: functionPython, Environ: r.packageEnviron()}
	if spec.Lock, err = resolver.Resolve(ctx, spec.Requires, wheels); err != nil {
		return err
	}
	spec.Layer, err = r.layers().Unpack(ctx, spec.Lock)
	return err
}

// packageEnviron returns what uv needs to know of the environment: where its index, proxy
// and certificates are.
func (r *Room) packageEnviron() []string {
	var out []string
	for _, entry := range r.o.Environ {
		name, _, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		switch {
		case upper == "PATH", upper == "HOME", strings.HasPrefix(upper, "UV_"), strings.HasPrefix(upper, "SSL_CERT_"), strings.HasPrefix(upper, "XDG_"), strings.HasSuffix(upper, "_PROXY"), upper == "TMPDIR":
			out = append(out, entry)
		}
	}
	return out
}

// layerOf returns the folder of a spec's packages.
func (r *Room) layerOf(spec *release.Spec) engine.Layer {
	if spec.Layer == "" {
		return engine.Layer{}
	}
	return engine.Layer{Digest: spec.Layer, Path: r.layers().Path(spec.Layer), Preload: spec.Preload}
}

// ensureLayer makes the layer of a version again if it is missing: this home may be another
// one than that of the push.
func (r *Room) ensureLayer(ctx context.Context, spec *release.Spec) error {
	if spec.Layer == "" || r.layers().Has(spec.Layer) {
		return nil
	}
	digest, err := r.layers().Unpack(ctx, spec.Lock)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the packages of the tool could not be restored: %w", err)
	}
	if digest != spec.Layer {
		return toolroom.Errorf(toolroom.CodeInternal, "the lock describes the layer %s, and the version has %s", digest, spec.Layer)
	}
	return nil
}

// collectLayers removes the layers that no version needs.
func (r *Room) collectLayers(ctx context.Context) {
	var locks []string
	tools, err := r.store.VersionedTools(ctx)
	for _, tool := range tools {
		versions, verr := r.store.Versions(ctx, tool)
		if verr != nil {
			err = verr
			break
		}
		for _, v := range versions {
			if v.Spec.Lock != "" {
				locks = append(locks, v.Spec.Lock)
			}
		}
	}
	if err == nil {
		_, err = r.layers().Collect(locks)
	}
	if err != nil && ctx.Err() == nil {
		r.log.Warn("cannot remove unused packages", "error", err)
	}
}
