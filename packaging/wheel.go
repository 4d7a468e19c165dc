package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
)

// wheels writes a Python wheel for each platform. The programs are its scripts, so pip and uv
// install them side by side in the environment's bin folder. See
// https://packaging.python.org/en/latest/specifications/binary-distribution-format/.
func wheels(r *release, builds []*build) error {
	for _, b := range builds {
		if err := r.wheel(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) wheel(b *build) error {
	v := r.version.pep440()
	base, info := "toolroom-"+v, "toolroom-"+v+".dist-info/"
	readme, err := entry{from: filepath.Join(r.root, "README.md")}.content()
	if err != nil {
		return err
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: toolroom\nVersion: %s\nSummary: %s\nLicense-Expression: Apache-2.0\nLicense-File: LICENSE\nProject-URL: Homepage, %s\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n%s", v, description, homepage, readme)
	tags := "Wheel-Version: 1.0\nGenerator: toolroom\nRoot-Is-Purelib: false\n"
	for tag := range strings.SplitSeq(b.wheel, ".") {
		tags += "Tag: py3-none-" + tag + "\n"
	}
	list := append(b.binaries(base+".data/scripts"),
		entry{name: info + "METADATA", mode: 0o644, data: []byte(metadata)},
		entry{name: info + "WHEEL", mode: 0o644, data: []byte(tags)},
		entry{name: info + "licenses/LICENSE", mode: 0o644, from: filepath.Join(r.root, "LICENSE")},
	)
	var record strings.Builder
	for _, e := range list {
		data, err := e.content()
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	list = append(list, entry{name: info + "RECORD", mode: 0o644, data: []byte(record.String())})
	return writeZip(r.file(base+"-py3-none-"+b.wheel+".whl"), r.date, list)
}
