package shell

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// sessionState is the state that one command of a session leaves for the next.
type sessionState struct {
	Dir string            `json:"dir"`
	Env map[string]string `json:"env"`
}

// saveStateScript is a shell script that runs the command line $1 and then writes the working
// folder and the exported variables to file 3.
const saveStateScript = `trap 'toolroom_exit=$?; { pwd -P; command env -0; } >&3 2>/dev/null; exit $toolroom_exit' EXIT
eval "$1"`

const maxState = 256 << 10

// unsavedVariables are the variables that belong to one command only.
var unsavedVariables = map[string]bool{"PWD": true, "OLDPWD": true, "SHLVL": true, "_": true, "HOME": true, "toolroom_exit": true}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

func (s *Shell) statePath(req *source.Request, session string) string {
	return filepath.Join(s.o.State, digest(identity.Owner(req.Identity)), digest(session)+".json")
}

// loadState returns the state of a session, which is empty if nothing was saved.
func (s *Shell) loadState(req *source.Request, session string) (sessionState, error) {
	var state sessionState
	if session == "" || s.o.State == "" {
		return state, nil
	}
	data, err := os.ReadFile(s.statePath(req, session))
	if errors.Is(err, fs.ErrNotExist) {
		return state, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil {
		return state, fmt.Errorf("read the state of session %s: %w", session, err)
	}
	if info, err := s.o.Folders.Stat(state.Dir); state.Dir != "" && (err != nil || !info.IsDir()) {
		state.Dir = "" // it has been removed
	}
	return state, nil
}

// saveState saves the state that a command wrote to file 3. It omits the variables of the
// config, which are set again and may be secrets, and those that a driver's sandbox sets
// itself.
func (s *Shell) saveState(req *source.Request, session string, c command, before sessionState, extra map[string]string) error {
	if _, err := c.state.Seek(0, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(c.state, maxState+1))
	if err != nil || len(data) == 0 || len(data) > maxState {
		return err // the command replaced the shell, or its environment is too large
	}
	ofSandbox := map[string]bool{}
	if s.inDriver(c.runtime) {
		began, ended, _ := bytes.Cut(data, []byte{0, 0})
		data = ended
		for entry := range bytes.SplitSeq(began, []byte{0}) {
			name, _, _ := strings.Cut(string(entry), "=")
			if _, kept := before.Env[name]; !kept {
				ofSandbox[string(entry)] = true
			}
		}
	}
	dir, env, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil
	}
	state := sessionState{Dir: string(dir), Env: map[string]string{}}
	if info, err := s.o.Folders.Stat(state.Dir); err != nil || !info.IsDir() {
		state.Dir = ""
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		name, value, ok := strings.Cut(string(entry), "=")
		if _, fromConfig := extra[name]; ok && !fromConfig && !unsavedVariables[name] && !ofSandbox[string(entry)] && value != proxyURL {
			state.Env[name] = value
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	path := s.statePath(req, session)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}

// stateFile creates a file for the state. It keeps its name only if named is set.
func (s *Shell) stateFile(named bool) (*os.File, error) {
	f, err := os.CreateTemp(s.o.Scratch, "shell-*")
	if err != nil || named {
		return f, err
	}
	return f, os.Remove(f.Name())
}
