package app

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/install"
	"github.com/toolroom/toolroom/internal/engine/js"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/source/function"
)

// functionPython is the interpreter of the engine py-native.
const functionPython = "/usr/bin/python3"

func (a *App) layers() function.LayerStore {
	return function.LayerStore{
		Folder: filepath.Join(a.home, "packages"), Client: &http.Client{Timeout: fetchTimeout},
		Passwords: func() map[string]*url.Userinfo { return function.IndexPasswords(a.packageEnviron()) },
	}
}

const fetchTimeout = 10 * time.Minute

// resolveDependencies locks the dependencies of a spec and unpacks them into a layer.
func (a *App) resolveDependencies(ctx context.Context, spec *release.Spec, wheels string) error {
	if len(spec.Requires) == 0 {
		return nil
	}
	uv, err := a.findInstalled(install.UV().Find)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "packages are resolved by uv, which is not installed").
			WithCLIHint("install it: toolroom setup packages")
	}
	if _, err := os.Stat(functionPython); err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "functions with packages need %s", functionPython).WithHint("install python3")
	}
	resolver := a.newResolver(uv)
	if spec.Lock, err = resolver.Resolve(ctx, spec.Requires, wheels); err != nil {
		return err
	}
	if spec.Layer, err = a.layers().Unpack(ctx, spec.Lock); err != nil {
		return err
	}
	spec.Built, err = function.ListBuilt(spec.Lock)
	return err
}

func (a *App) newResolver(uv string) function.Resolver {
	return function.Resolver{UV: uv, Python: functionPython, Environ: a.packageEnviron(), Store: a.layers(), Builder: a.builder()}
}

func isJavaScript(spec *release.Spec) bool {
	return spec.Language == "javascript" || spec.Language == "typescript"
}

// newNPM returns the installer of the packages of functions in JavaScript.
func (a *App) newNPM() (function.NPM, error) {
	n := function.NPM{Environ: append(a.packageEnviron(), function.NPMVariables(a.o.Environ)...), Store: a.layers(), Builder: a.builder()}
	var err error
	if n.Path, err = a.findCommand("npm"); err == nil {
		return n, nil
	}
	return n, toolroom.Errorf(toolroom.CodeUnsupported, "packages of JavaScript are resolved by npm, which is not installed").
		WithHint("install Node.js with npm")
}

// resolvePackages locks the npm packages of a spec and installs them into a layer.
func (a *App) resolvePackages(ctx context.Context, spec *release.Spec, tarballs string) error {
	if len(spec.Requires) == 0 {
		spec.Lock = ""
		return nil
	}
	npm, err := a.newNPM()
	if err != nil {
		return err
	}
	if spec.Lock, err = npm.Resolve(ctx, spec.Requires, spec.Lock, tarballs); err != nil {
		return err
	}
	if spec.Layer, err = npm.Unpack(ctx, spec.Requires, spec.Lock, tarballs); err != nil {
		return err
	}
	spec.Built, err = function.ListBuilt(spec.Lock)
	return err
}

// packagesOf returns where the npm packages of a spec are, and the program that runs it.
func (a *App) packagesOf(spec *release.Spec) js.Packages {
	if !isJavaScript(spec) || spec.Layer == "" {
		return js.Packages{Node: spec.Node}
	}
	return js.Packages{Folder: a.layers().Path(spec.Layer), Node: spec.Node}
}

// packageEnviron returns the variables of the environment that uv and npm need: their
// index, proxy and certificates.
func (a *App) packageEnviron() []string {
	var out []string
	for _, entry := range a.o.Environ {
		name, _, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		switch {
		case upper == "PATH", upper == "HOME", strings.HasPrefix(upper, "UV_"), strings.HasPrefix(upper, "NPM_CONFIG_"), upper == "NODE_EXTRA_CA_CERTS", upper == "NETRC", strings.HasPrefix(upper, "SSL_CERT_"), strings.HasPrefix(upper, "XDG_"), strings.HasSuffix(upper, "_PROXY"), upper == "TMPDIR":
			out = append(out, entry)
		}
	}
	return out
}

// Layer returns the folder of a version's packages.
func (a *App) Layer(spec *release.Spec) engine.Layer {
	if spec.Layer == "" {
		return engine.Layer{}
	}
	return engine.Layer{Digest: spec.Layer, Path: a.layers().Path(spec.Layer), Preload: spec.Preload}
}

// ensureLayer makes the layer of a version again if it is missing. This home may be another
// one than that of the push.
func (a *App) ensureLayer(ctx context.Context, spec *release.Spec) error {
	if spec.Layer == "" || a.layers().Has(spec.Layer) {
		return nil
	}
	digest, err := a.restoreLayer(ctx, spec)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the packages of the tool could not be restored: %w", err).
			WithHint("%s", toolroom.AsError(err).Hint)
	}
	if digest != spec.Layer {
		return toolroom.Errorf(toolroom.CodeInternal, "the lock describes the layer %s, and the version has %s", digest, spec.Layer)
	}
	return nil
}

func (a *App) restoreLayer(ctx context.Context, spec *release.Spec) (string, error) {
	if !isJavaScript(spec) {
		return a.newResolver("").Restore(ctx, spec.Lock)
	}
	npm, err := a.newNPM()
	if err != nil {
		return "", err
	}
	return npm.Restore(ctx, spec.Requires, spec.Lock)
}

// collectLayers removes the layers that no version needs.
func (a *App) collectLayers(ctx context.Context) {
	var locks []string
	tools, err := a.store.VersionedTools(ctx)
	for _, tool := range tools {
		if tool.Source != "" {
			continue
		}
		versions, verr := a.store.Versions(ctx, tool.Tool)
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
		_, err = a.layers().Collect(locks)
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("cannot remove unused packages", "error", err)
	}
}
