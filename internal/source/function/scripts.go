package function

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // of what runs install scripts
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// scripts records the install scripts of a lock that ran here.
type scripts struct {
	// Ran lists the folders of their packages, as in the lock. Result is the SHA-256 of the
	// file with their changes in these folders.
	Ran    []string `json:"ran"`
	Result string   `json:"result"`
}

// scriptsKey is the key of scripts in a lock, which npm ignores.
const scriptsKey = "toolroom"

// readScripts returns the record of install scripts in a lock.
func readScripts(lock string) scripts {
	var l map[string]json.RawMessage
	var s scripts
	if json.Unmarshal([]byte(lock), &l) == nil && l[scriptsKey] != nil {
		_ = json.Unmarshal(l[scriptsKey], &s)
	}
	return s
}

// withScripts returns a lock with s as its record of install scripts, or without one if s is nil.
func withScripts(lock string, s *scripts) (string, error) {
	var l map[string]json.RawMessage
	if err := json.Unmarshal([]byte(lock), &l); err != nil {
		return "", err
	}
	if s == nil {
		if l[scriptsKey] == nil {
			return lock, nil
		}
		delete(l, scriptsKey)
	} else {
		l[scriptsKey] = Encode(s)
	}
	text, err := json.MarshalIndent(l, "", "  ")
	return string(text) + "\n", err
}

//go:embed scripts.js
var scriptsProgram string

// maxHeaderLine limits the line before each file in the output of scripts.js.
const maxHeaderLine = 8 << 10

// runScripts runs the install scripts of packages in a sandbox, on a layer that npm installed
// without them, unless the store has their result. It returns the lock with a record of them.
func (n NPM) runScripts(ctx context.Context, requires []string, lock, tarballs string, all []npmPackage) (string, error) {
	plain, err := n.Unpack(ctx, requires, lock, tarballs)
	if err != nil {
		return "", err
	}
	s := scripts{}
	var said []string
	for _, p := range all {
		if !n.Builder.allows(npm, p.Name) {
			return "", toolroom.Errorf(toolroom.CodeDenied, "the install script of %s %s ran for this version, and that is not allowed here", p.Name, p.Version).WithHint("allow it: %s", allowHint(npm, p.Name))
		}
		s.Ran = append(s.Ran, p.At)
		if one := p.Name + " " + p.Version; !slices.Contains(said, one) {
			said = append(said, one)
		}
	}
	task, err := json.Marshal(map[string]any{"layer": sandbox.LayerPath, "folders": s.Ran})
	if err != nil {
		return "", err
	}
	made, err := n.Store.buildOnce(ctx, buildKey(npm, plain, string(task), nodeIdentity()), func() (buildRecord, error) {
		sum, err := n.Store.put(builtSuffix, func(to io.Writer) error {
			return n.Builder.Run(ctx, Build{
				Name: strings.Join(said, ", "), Command: []string{"node", "-e", scriptsProgram, string(task)},
				// Headers of Node, so that nothing is fetched for native code.
				Env: []string{"npm_config_nodedir=/usr"}, Input: bytes.NewReader(nil), Layer: n.Store.Path(plain), MaxOutput: maxUnpacked,
			}, to)
		}, func(_, file string) error {
			if err := eachChanged(file, s.Ran, func(string, bool, io.Reader) error { return nil }); err != nil {
				return fmt.Errorf("the install script of %s: %w", strings.Join(said, ", "), err)
			}
			return nil
		})
		return buildRecord{File: sum + builtSuffix}, err
	})
	if err != nil {
		return "", err
	}
	s.Result = strings.TrimSuffix(made.File, builtSuffix)
	return withScripts(lock, &s)
}

// eachChanged calls do for each file that install scripts changed. It checks the names and sizes
// in file, because the scripts could have written anything to it.
func eachChanged(file string, folders []string, do func(name string, run bool, content io.Reader) error) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	from := bufio.NewReaderSize(in, maxHeaderLine)
	left := int64(maxUnpacked)
	for range maxMembers {
		line, err := from.ReadSlice('\n')
		var head struct {
			Name string `json:"name"`
			Size int64  `json:"size"`
			Run  bool   `json:"run"`
		}
		if err != nil || json.Unmarshal(line, &head) != nil || head.Size < 0 {
			break
		}
		if head.Name == "" {
			if _, err := from.ReadByte(); errors.Is(err, io.EOF) {
				return nil
			}
			break
		}
		inside := slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(head.Name, folder+"/") })
		if !inside || filepath.Clean(head.Name) != head.Name || !filepath.IsLocal(head.Name) {
			return toolroom.Errorf(toolroom.CodeDenied, "it changed %q, which is not in its folder: nothing was used", head.Name)
		}
		if left -= head.Size; left < 0 {
			return toolroom.Errorf(toolroom.CodeResourceLimit, "it made more than %d MiB", maxUnpacked>>20)
		}
		content := io.LimitReader(from, head.Size)
		if err := do(head.Name, head.Run, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
	}
	return toolroom.Errorf(toolroom.CodeDenied, "what it printed is no list of files: nothing was used")
}

// applyScripts copies the files that install scripts changed into a layer.
func (n NPM) applyScripts(s scripts, folder string) error {
	file, there := n.Store.file(s.Result, builtSuffix)
	if !there {
		return toolroom.Errorf(toolroom.CodeNotFound, "what install scripts made is gone").WithHint("push again, which runs them")
	}
	return eachChanged(file, s.Ran, func(name string, run bool, content io.Reader) error {
		to := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if run {
			mode = 0o755
		}
		out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, content)
		return errors.Join(err, out.Close())
	})
}

// Restore makes the layer of a lock again. It runs install scripts again if their result is
// missing, and returns an error if the new result differs.
func (n NPM) Restore(ctx context.Context, requires []string, lock string) (string, error) {
	s := readScripts(lock)
	if _, there := n.Store.file(s.Result, builtSuffix); len(s.Ran) == 0 || there {
		return n.Unpack(ctx, requires, lock, "")
	}
	plain, err := withScripts(lock, nil)
	if err != nil {
		return "", err
	}
	all, err := parseNPMLock(plain)
	if err != nil {
		return "", err
	}
	all = slices.DeleteFunc(all, func(p npmPackage) bool { return !slices.Contains(s.Ran, p.At) })
	again, err := n.runScripts(ctx, requires, plain, "", all)
	if err != nil {
		return "", err
	}
	if got := readScripts(again).Result; got != s.Result {
		return "", rebuiltDifferently(all[0].Name+" "+all[0].Version, "what its install script made", got, s.Result)
	}
	return n.Unpack(ctx, requires, lock, "")
}

// nodeIdentity identifies the installed Node, because native code is built for one version of it.
func nodeIdentity() string {
	file, err := exec.LookPath("node")
	if err != nil {
		return ""
	}
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
}
