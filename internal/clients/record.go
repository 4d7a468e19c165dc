package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Record is the record of a change in the home, so that it can be undone. A client has one for
// each of its files.
type Record struct {
	File   string `json:"file"`
	Exists bool   `json:"exists"`
	// After is the digest of the file after the change. A copy of the file before the change is
	// stored beside the record. Before is its digest, because after a crash the copy may be that
	// of another record.
	After  string `json:"after"`
	Before string `json:"before,omitempty"`
	Mode   uint32 `json:"mode"`
	// Removed are the texts of the entries that were removed, by name.
	Removed map[string]string `json:"removed,omitempty"`
	// Token is the id of the client's token. Sources are the sources that were added to the file
	// Config, and Secrets the references of the secrets that were stored for them.
	Token   string   `json:"token,omitempty"`
	Config  string   `json:"config,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Secrets []string `json:"secrets,omitempty"`

	// name is that of the record's files in the home, without extension.
	name string
}

func recordFolder(home string) string { return filepath.Join(home, "connect") }

func (r Record) path(home string) string { return filepath.Join(recordFolder(home), r.name+".json") }

// BackupPath returns the path of the copy of the client's file as it was before the change.
func (r Record) BackupPath(home string) string {
	return filepath.Join(recordFolder(home), r.name+".before")
}

// Recorded returns the record of a client's file; an empty file means the only recorded one. If
// there is none, the error is fs.ErrNotExist.
func Recorded(home string, c Client, file string) (Record, error) {
	all, err := records(home, c)
	if err != nil {
		return Record{}, err
	}
	if file == "" && len(all) > 1 {
		var files []string
		for _, r := range all {
			files = append(files, r.File)
		}
		return Record{}, toolroom.Errorf(toolroom.CodeConflict, "%s is connected in several files", c.Title).
			WithHint("name one with --file: %s", strings.Join(files, ", "))
	}
	for _, r := range all {
		if file == "" || r.File == file {
			return r, nil
		}
	}
	return Record{}, fs.ErrNotExist
}

// records returns all records of a client, ordered by name.
func records(home string, c Client) ([]Record, error) {
	entries, err := os.ReadDir(recordFolder(home))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []Record
	for _, entry := range entries {
		r := Record{}
		var found bool
		if r.name, found = strings.CutSuffix(entry.Name(), ".json"); !found || r.name != c.Name && !strings.HasPrefix(r.name, c.Name+".") {
			continue
		}
		data, err := os.ReadFile(r.path(home))
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path(home), err)
		}
		all = append(all, r)
	}
	return all, nil
}

// newRecordName returns a name that no record has: that of the client, or with a number after it.
func newRecordName(home string, c Client) (string, error) {
	all, err := records(home, c)
	name := c.Name
	for n := 2; slices.ContainsFunc(all, func(r Record) bool { return r.name == name }); n++ {
		name = fmt.Sprintf("%s.%d", c.Name, n)
	}
	return name, err
}
