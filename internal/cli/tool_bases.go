package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/release"
)

// knownFile is the file in a folder of tools that has what the last pull or sync saw. It is of
// one person's copy, and so does not belong into version control.
const knownFile = ".toolroom-versions.json"

// known is what the last pull or sync saw, by tool.
type known struct {
	// Versions are those that were the newest.
	Versions map[string]int `json:"versions"`
	// Cases are the digests of the files of cases. A file with another digest was edited since.
	Cases map[string]string `json:"cases,omitempty"`
}

// readKnown reads what is known. A file that cannot be read is as none: then nothing is known,
// and nothing is a conflict.
func readKnown(folder string) *known {
	k := &known{}
	text, err := os.ReadFile(filepath.Join(folder, knownFile))
	if err != nil || json.Unmarshal(text, k) != nil {
		k = &known{}
	}
	if k.Versions == nil {
		k.Versions = map[string]int{}
	}
	if k.Cases == nil {
		k.Cases = map[string]string{}
	}
	return k
}

func (k *known) write(folder string) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil || len(k.Versions) == 0 {
		return err
	}
	return os.WriteFile(filepath.Join(folder, knownFile), append(text, '\n'), 0o644)
}

// sawCases notes that the file of cases of a tool is as the saved ones are.
func (k *known) sawCases(top, tool string) error {
	text, err := os.ReadFile(filepath.Join(toolFolder(top, tool), release.CasesFile))
	if errors.Is(err, fs.ErrNotExist) {
		delete(k.Cases, tool)
		return nil
	}
	if err == nil {
		k.Cases[tool] = digestOf(text)
	}
	return err
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
