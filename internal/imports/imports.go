// Package imports reads the MCP servers that other programs are configured
// with, as sources for toolroom.yaml. [Read] is the one entry; each client's
// places and format are in a file of its own.
package imports

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
)

// maxFile bounds what is read: ~/.claude.json grows with the history.
const maxFile = 64 << 20

// Place is where to look: the user's home folder and the folder of the project.
type Place struct {
	Home, Dir string
}

// Found is one MCP server.
type Found struct {
	// Name is free to be a namespace.
	Name   string
	Source config.Source
	// Origin is the file that it was read from.
	Origin string
	// Warnings say what could not be carried over, and what to do. They never
	// show a value.
	Warnings []string
	// Secrets are values that looked like secrets, by the reference that stands
	// for them in Source. They are for the secret store, not for the config.
	Secrets map[string]string
}

// Result is what a client is configured with.
type Result struct {
	// Found is in order of name.
	Found []Found
	// Skipped says what was no server that could be read.
	Skipped []string
}

// client is a program that has MCP servers.
type client struct {
	name string
	// files are where its servers may be; missing ones are passed over.
	files func(at Place) []file
	// expand knows the placeholders of its own, by name; nil has none.
	expand func(at Place) map[string]string
	// bareVariables says that $VAR is ${VAR}.
	bareVariables bool
}

// file is one place and how to read it.
type file struct {
	path string
	read func(text []byte, at Place) ([]entry, error)
}

// entry is one server as a client writes it.
type entry struct {
	name   string
	server server
	// problem is set when the entry could not be read.
	problem error
}

func clients() []client {
	return []client{claude(), codex(), cursor(), vscode(), gemini()}
}

// Clients names the programs that Read knows.
func Clients() []string {
	var names []string
	for _, c := range clients() {
		names = append(names, c.name)
	}
	return names
}

// Read gives the servers of a client. The error has code not_found when none of
// the client's files is there, and names the places; it has code
// invalid_arguments for an unknown client and for a file that cannot be read.
func Read(name string, at Place) (*Result, error) {
	i := slices.IndexFunc(clients(), func(c client) bool { return c.name == name })
	if i < 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no client %q to import from", name).
			WithHint("there are %s", strings.Join(Clients(), ", "))
	}
	c := clients()[i]
	reader := reader{client: c, taken: map[string]*Found{}, result: &Result{}}
	if c.expand != nil {
		reader.placeholders = c.expand(at)
	}
	var missing []string
	files := c.files(at)
	for _, f := range files {
		text, err := readFile(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, f.path)
			continue
		}
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s cannot be read: %w", f.path, err)
		}
		entries, err := f.read(text, at)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s:%w", f.path, err).
				WithHint("correct the file, or move it away to import the others")
		}
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
		for _, e := range entries {
			reader.add(e, f.path)
		}
	}
	if len(missing) == len(files) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "%s has no config here; looked at %s", name, strings.Join(missing, ", ")).
			WithHint("import from another client (%s), or add a server: toolroom sources add NAME -- COMMAND", strings.Join(Clients(), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(reader.taken)) {
		reader.result.Found = append(reader.result.Found, *reader.taken[name])
	}
	return reader.result, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		// A folder on the way that is a file is as good as missing.
		if info, statErr := os.Stat(filepath.Dir(path)); statErr == nil && !info.IsDir() {
			return nil, fs.ErrNotExist
		}
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return text, err
}

// reader gathers the servers of one client.
type reader struct {
	client       client
	placeholders map[string]string
	taken        map[string]*Found
	result       *Result
}

func (r *reader) add(e entry, origin string) {
	if e.problem != nil {
		r.result.Skipped = append(r.result.Skipped, fmt.Sprintf("%s: %s: %s", origin, e.name, e.problem))
		return
	}
	name := cleanName(e.name)
	// The same server in the files of the user and of the project is one.
	for n := name; ; n = nextName(name, n) {
		found, err := r.convert(n, e.server)
		if err != nil {
			r.result.Skipped = append(r.result.Skipped, fmt.Sprintf("%s: %s: %s", origin, e.name, err))
			return
		}
		other, ok := r.taken[n]
		if ok && reflect.DeepEqual(other.Source, found.Source) && maps.Equal(other.Secrets, found.Secrets) {
			return
		}
		if ok {
			continue
		}
		found.Origin = origin
		if n != e.name {
			reason := "a name of Toolroom has only A-Z a-z 0-9 _ . -"
			if n != name {
				reason = name + " is taken by another server, of " + r.taken[name].Origin
			}
			found.Warnings = append([]string{fmt.Sprintf("%q is called %s: %s", e.name, n, reason)}, found.Warnings...)
		}
		r.taken[n] = &found
		return
	}
}

// nextName is name-2, name-3 and so on.
func nextName(name, last string) string {
	n := 2
	if suffix, ok := strings.CutPrefix(last, name+"-"); ok {
		_, _ = fmt.Sscan(suffix, &n) // nextName made it
		n++
	}
	suffix := fmt.Sprintf("-%d", n)
	return name[:min(len(name), toolroom.MaxIDPart-len(suffix))] + suffix
}

// cleanName makes a namespace of any text.
func cleanName(text string) string {
	var b strings.Builder
	for _, r := range text {
		ok := r == '_' || r == '.' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		switch {
		case ok:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= toolroom.MaxIDPart {
			break
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-"), "server")
}
