package clients

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
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/internal/secret"
)

// maxFile is the largest file that is read or edited, in bytes: ~/.claude.json grows with the
// history.
const maxFile = 64 << 20

// Found is one MCP server.
type Found struct {
	// Name can be used as a namespace.
	Name string
	// Entry is the name in the client's file.
	Entry  string
	Source config.Source
	// Origin is the file that contains the server.
	Origin string
	// Warnings describe what could not be imported, and what to do. They never contain a
	// value.
	Warnings []string
	// Secrets are values that looked like secrets, by the reference that stands
	// for them in Source. They are for the secret store, not for the config.
	Secrets map[string]string
}

// AvoidSecrets renames the references of f if taken reports that one of them exists, because a
// name in a foreign file must neither read nor replace an existing secret. It returns the scope
// before and after, which are equal if it renames nothing.
func (f *Found) AvoidSecrets(taken func(secret.Ref) (bool, error)) (before, after string, err error) {
	var refs []secret.Ref
	note := func(text string) {
		for _, reference := range secret.References(text) {
			if ref, err := secret.ParseRef(reference); err == nil && ref.Scope == f.Name {
				refs = append(refs, ref)
			}
		}
	}
	places := []map[string]string{}
	if m := f.Source.MCP; m != nil {
		places = append(places, m.Env, m.Headers)
	}
	for _, values := range places {
		for _, value := range values {
			note(value)
		}
	}
	before, after = f.Name, f.Name
	for n := 2; ; n++ {
		any := false
		for _, ref := range refs {
			ref.Scope = after
			is, err := taken(ref)
			if err != nil {
				return before, after, err
			}
			any = any || is
		}
		if !any {
			break
		}
		after = numbered(before, n)
	}
	if after == before {
		return before, after, nil
	}
	rename := func(text string) string {
		return strings.ReplaceAll(text, "secret://"+before+"/", "secret://"+after+"/")
	}
	for _, values := range places {
		for key, value := range values {
			values[key] = rename(value)
		}
	}
	secrets := make(map[string]string, len(f.Secrets))
	for reference, value := range f.Secrets {
		secrets[rename(reference)] = value
	}
	f.Secrets = secrets
	for i, warning := range f.Warnings {
		f.Warnings[i] = strings.ReplaceAll(warning, "secret set "+before+"/", "secret set "+after+"/")
	}
	return before, after, nil
}

// Result lists the servers that a client is configured with.
type Result struct {
	// Found is sorted by name.
	Found []Found
	// Skipped describes entries that could not be read.
	Skipped []string
}

// entry is one server in the client's form.
type entry struct {
	name   string
	server server
	// problem is set if the entry could not be read.
	problem error
}

// Read returns the servers of the clients that are imported under a name. If none of their
// files exists, the error has code not_found and names the paths. For an unknown name and for
// a file that cannot be read it has code invalid_arguments.
func Read(name string, at BaseDirs) (*Result, error) {
	r, files, err := readerOf(name)
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		folder := at.Home
		if f.project {
			folder = at.Dir
		}
		files[i].path = filepath.Join(folder, filepath.FromSlash(f.path))
	}
	files = slices.CompactFunc(files, func(a, b file) bool { return a.path == b.path }) // Home may be Dir
	if r.client.editor {
		r.placeholders = editorFolders(at)
	}
	return r.read(files, at)
}

// ReadFile returns the servers in one file, as Read does. Servers of a project in it, and
// placeholders for a project's folder, are not known.
func ReadFile(name, path string) (*Result, error) {
	r, files, err := readerOf(name)
	if err != nil {
		return nil, err
	}
	read := files[len(files)-1].read
	for _, f := range files {
		if filepath.Base(f.path) == filepath.Base(path) {
			read = f.read
		}
	}
	return r.read([]file{{path: path, read: read}}, BaseDirs{})
}

// readerOf returns a reader for the clients that are imported under a name, and their files.
func readerOf(name string) (r *reader, files []file, err error) {
	for _, c := range Clients() {
		if c.Import == name {
			r = &reader{client: c, taken: map[string]*Found{}, result: &Result{}}
			files = append(files, c.files...)
		}
	}
	if r == nil {
		return nil, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "unknown client %q", name).
			WithHint("known: %s", strings.Join(Imports(), ", "))
	}
	return r, files, nil
}

// read reads files, of which missing ones are skipped.
func (r *reader) read(files []file, at BaseDirs) (*Result, error) {
	var missing []string
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
			r.add(e, f.path)
		}
	}
	if len(missing) == len(files) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "%s has no config here; looked at %s", r.client.Import, strings.Join(missing, ", ")).
			WithCLIHint("import from another client (%s), or add a server: toolroom sources add NAME -- COMMAND", strings.Join(Imports(), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(r.taken)) {
		r.result.Found = append(r.result.Found, *r.taken[name])
	}
	return r.result, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		// If a parent folder is a file, the path counts as missing.
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

// reader collects the servers of one client.
type reader struct {
	client       Client // one of those with the name
	placeholders map[string]string
	taken        map[string]*Found
	result       *Result
}

func (r *reader) add(e entry, origin string) {
	if e.problem != nil {
		r.result.Skipped = append(r.result.Skipped, fmt.Sprintf("%s: %s: %s", origin, e.name, e.problem))
		return
	}
	clean := cleanName(e.name)
	name := reserved.Alternative(clean)
	// The same server in the files of the user and of the project counts once.
	for i := 1; ; i++ {
		n := numbered(name, i)
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
		found.Origin, found.Entry = origin, e.name
		if n != e.name {
			reason := "a name of Toolroom has only A-Z a-z 0-9 _ . -"
			if why, is := reserved.Reason(clean); is {
				reason = fmt.Sprintf("the namespace %s is reserved: %s", clean, why)
			}
			if n != name {
				reason = name + " is taken by another server, of " + r.taken[name].Origin
			}
			found.Warnings = append([]string{fmt.Sprintf("%q is called %s: %s", e.name, n, reason)}, found.Warnings...)
		}
		r.taken[n] = &found
		return
	}
}

// numbered returns name, name-2, name-3 and so on, cut to the maximum length of a name.
func numbered(name string, i int) string {
	if i == 1 {
		return name
	}
	suffix := fmt.Sprintf("-%d", i)
	return name[:min(len(name), toolroom.MaxIDPart-len(suffix))] + suffix
}

// cleanName converts any text to a namespace.
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
