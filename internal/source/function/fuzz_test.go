package function

import (
	"testing"

	"github.com/toolroom/toolroom"
)

// What reads headers and manifests never panics, and every refusal is an error of the author
// that names a next step.
func FuzzRead(f *testing.F) {
	for _, seed := range []struct{ file, source, manifest string }{
		{"a.py", "# /// script\n# dependencies = ['x']\n# [tool.toolroom]\n# limits = {timeout_ms = 5}\n# cases = [{name = 'a', arguments = {x = 1}, expect = 2}]\n# ///\ndef a(x: int) -> int:\n    return x\n", ""},
		{"a.ts", "// toolroom:\n//   secrets: [a/b]\n//   config: {a: [1, {b: null}]}\nexport function f(x: number) {}\n", ""},
		{"a.sh", "#!/bin/sh\n# toolroom:\n#   parameters:\n#     x: {type: integer, default: 1}\n#   output: json\n#   returns: {type: array}\n", ""},
		{"a.sh", "#!/usr/bin/env lua\n-- toolroom:\n--   parameters: {}\n", "name: b\nlimits: {timeout_ms: 1}\n"},
		{"a.wasm", "AGFzbQEAAAA=", "file: a.wasm\nparameters: {x: string, y: {type: [string, 'null'], required: false}}\n"},
		{"a.py", "def a(): pass\n", "tools:\n  - entry: a\n    name: b\n    input_schema: {type: object}\nconfig: &a {b: *a}\n"},
		{"a.py", "# /// script\n# dependencies = [\n# ///\n", "tools: {}\n"},
		{"a.js", "/* toolroom:\n   parameters: [\n*/", "? [a]\n: b\n"},
	} {
		f.Add(seed.file, seed.source, seed.manifest)
	}
	f.Fuzz(func(t *testing.T, file, source, manifest string) {
		files := map[string]string{file: source}
		if manifest != "" {
			files[ManifestFile] = manifest
		}
		c, err := Read(files, "")
		if err == nil && (c.Language == Script || c.Language == "wasm") {
			_, err = inspectCommand(c)
		}
		if err == nil {
			return
		}
		if code := toolroom.CodeOf(err); code != toolroom.CodeInvalidArguments && code != toolroom.CodeUnsupported {
			t.Errorf("code %s: %v", code, err)
		}
	})
}
