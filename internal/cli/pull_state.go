package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/release"
)

// pullStateFile is the file in a folder of tools that records the last pull or sync. It describes
// one person's copy, so it does not belong into version control.
const pullStateFile = ".toolroom-versions.json"

// pullState records what the last pull or sync saw, by tool.
type pullState struct {
	// Versions are the newest versions at that time.
	Versions map[string]int `json:"versions"`
	// Cases are the digests of the files of cases. A file with another digest has been edited
	// since.
	Cases map[string]string `json:"cases,omitempty"`
}

// readPullState reads the state of a folder. A file that is missing or cannot be read counts as
// empty; then nothing is a conflict.
func readPullState(folder *os.Root) *pullState {
	k := &pullState{}
	text, err := readIn(folder, pullStateFile)
	if err != nil || json.Unmarshal(text, k) != nil {
		k = &pullState{}
	}
	if k.Versions == nil {
		k.Versions = map[string]int{}
	}
	if k.Cases == nil {
		k.Cases = map[string]string{}
	}
	return k
}

func (k *pullState) write(folder *os.Root) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil || len(k.Versions) == 0 {
		return err
	}
	return folder.WriteFile(pullStateFile, append(text, '\n'), 0o644)
}

// noteCases records that a tool's file of cases is the same as its saved cases.
func (k *pullState) noteCases(folder *os.Root, tool string) error {
	text, err := readIn(folder, filepath.Join(toolFolder(tool), release.CasesFile))
	if errors.Is(err, fs.ErrNotExist) {
		delete(k.Cases, tool)
		return nil
	}
	if err == nil {
		k.Cases[tool] = digestOf(text)
	}
	return err
}

// readIn reads a file in a folder of tools, which may come from somebody else: a link must not
// lead out of it, and a pipe must not be waited for.
func readIn(folder *os.Root, name string) ([]byte, error) {
	if info, err := folder.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return folder.ReadFile(name)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
