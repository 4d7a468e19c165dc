package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
)

//go:embed files/launcher.js
var launcher []byte

// npmPackages writes a package for each platform and the launcher. The platforms are optional
// dependencies of the launcher, so npm installs the one that fits. No package has install
// scripts.
func npmPackages(r *release, builds []*build) error {
	optional := map[string]string{}
	for _, p := range platforms {
		optional[p.npmName()] = r.version.semver
	}
	for _, b := range builds {
		manifest := r.manifest(b.npmName(), "The programs of Toolroom for "+b.String())
		manifest["os"], manifest["cpu"] = []string{b.npmOS}, []string{b.npmCPU}
		if err := r.npmPackage(fmt.Sprintf("toolroom-npm-%s-%s", b.npmOS, b.npmCPU), manifest, b.binaries("package/bin")); err != nil {
			return err
		}
	}
	manifest := r.manifest("toolroom", description)
	manifest["bin"] = map[string]string{"toolroom": "bin/toolroom.js"}
	manifest["engines"] = map[string]string{"node": ">=18"}
	manifest["optionalDependencies"] = optional
	return r.npmPackage("toolroom-npm", manifest, []entry{
		{name: "package/bin/toolroom.js", mode: 0o755, data: launcher},
		{name: "package/README.md", mode: 0o644, from: filepath.Join(r.root, "README.md")},
	})
}

func (p platform) npmName() string { return "@toolroom/" + p.npmOS + "-" + p.npmCPU }

func (r *release) manifest(name, description string) map[string]any {
	return map[string]any{
		"name": name, "version": r.version.semver, "description": description, "license": "Apache-2.0",
		"repository": map[string]string{"type": "git", "url": "git+" + homepage + ".git"},
	}
}

func (r *release) npmPackage(name string, manifest map[string]any, list []entry) error {
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	list = append(list, entry{name: "package/package.json", mode: 0o644, data: append(text, '\n')},
		entry{name: "package/LICENSE", mode: 0o644, from: filepath.Join(r.root, "LICENSE")})
	return writeTarGz(r.file(name+"-"+r.version.semver+".tgz"), r.date, list)
}
