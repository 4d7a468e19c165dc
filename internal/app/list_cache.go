package app

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// listCache stores the last tool list of a source on disk, so that commands can resolve,
// search and describe tools without starting every server. A list is valid for one
// configuration of the source, identified by its digest. After a day it is outdated: it is
// used only until there is a newer one.
type listCache struct {
	path   string
	digest string
	now    func() time.Time
}

const (
	// listAge is how long a stored list is used without asking the source again. A server
	// asks at start in any case.
	listAge = 24 * time.Hour
	// refreshWait is how long a command waits for the source of an outdated list.
	refreshWait = 5 * time.Second
)

type cachedList struct {
	Digest string       `json:"digest"`
	Time   time.Time    `json:"time"`
	Tools  []cachedTool `json:"tools"`
}

type cachedTool struct {
	Tool toolroom.Tool   `json:"tool"`
	Raw  json.RawMessage `json:"raw,omitempty"`
}

// read returns the stored list, and its time if it is outdated.
func (c *listCache) read() (tools []toolroom.Tool, outdated time.Time, ok bool) {
	if c == nil {
		return nil, time.Time{}, false
	}
	data, err := os.ReadFile(c.path)
	if err != nil {
		return nil, time.Time{}, false
	}
	var kept cachedList
	// A list that cannot be read is ignored: the source is listed again.
	if json.Unmarshal(data, &kept) != nil || kept.Digest != c.digest {
		return nil, time.Time{}, false
	}
	if c.now().Sub(kept.Time) > listAge {
		outdated = kept.Time
	}
	tools = make([]toolroom.Tool, len(kept.Tools))
	for i, k := range kept.Tools {
		tools[i] = k.Tool
		tools[i].Raw = k.Raw
	}
	return tools, outdated, true
}

// cachedFailure is the failure of the last attempt to list a source.
type cachedFailure struct {
	Digest string    `json:"digest"`
	Time   time.Time `json:"time"`
	Error  string    `json:"error"`
	Hint   string    `json:"hint,omitempty"`
}

func (c *listCache) failurePath() string { return c.path + ".failed" }

// writeFailure stores why the source could not be listed, for later processes.
func (c *listCache) writeFailure(failure *toolroom.Error) error {
	if c == nil {
		return nil
	}
	data, err := json.Marshal(cachedFailure{Digest: c.digest, Time: c.now(), Error: failure.Error(), Hint: cmp.Or(failure.CLIHint, failure.Hint)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(c.failurePath(), data, 0o600)
}

// failure returns the failure of the last attempt of an earlier process, or nil.
func (c *listCache) failure() *cachedFailure {
	if c == nil {
		return nil
	}
	data, err := os.ReadFile(c.failurePath())
	if err != nil {
		return nil
	}
	var kept cachedFailure
	if json.Unmarshal(data, &kept) != nil || kept.Digest != c.digest {
		return nil
	}
	return &kept
}

// write stores a list and removes the stored failure.
func (c *listCache) write(tools []toolroom.Tool) error {
	if c == nil {
		return nil
	}
	kept := cachedList{Digest: c.digest, Time: c.now(), Tools: make([]cachedTool, len(tools))}
	for i, t := range tools {
		kept.Tools[i] = cachedTool{Tool: t, Raw: t.Raw}
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return err
	}
	_ = os.Remove(c.failurePath()) // most often there is none
	return atomicfile.Write(c.path, data, 0o600)
}
