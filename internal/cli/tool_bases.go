package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/release"
)

// basesFile is the file in a folder of tools that has the versions that the last pull or sync
// saw as the newest. It is of one person's copy, and so does not belong into version control.
const basesFile = ".toolroom-versions.json"

// readBases reads the versions by tool. A file that cannot be read is as none: then nothing
// is known, and nothing is a conflict.
func readBases(folder string) map[string]int {
	bases := map[string]int{}
	text, err := os.ReadFile(filepath.Join(folder, basesFile))
	if err != nil || json.Unmarshal(text, &bases) != nil {
		return map[string]int{}
	}
	return bases
}

func writeBases(folder string, bases map[string]int) error {
	text, err := json.MarshalIndent(bases, "", "  ")
	if err != nil || len(bases) == 0 {
		return err
	}
	return os.WriteFile(filepath.Join(folder, basesFile), append(text, '\n'), 0o644)
}

// writeCases writes the cases of a tool into its folder, and reports whether that changed
// something.
func writeCases(folder string, cases []*release.Case) (changed bool, err error) {
	file := filepath.Join(folder, release.CasesFile)
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if len(cases) == 0 {
		if before == nil {
			return false, nil
		}
		return true, os.Remove(file)
	}
	text, err := release.WriteCases(cases)
	if err != nil || bytes.Equal(before, text) {
		return false, err
	}
	return true, os.WriteFile(file, text, 0o644)
}
