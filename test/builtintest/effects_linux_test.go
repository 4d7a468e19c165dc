package builtintest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// watchedBase is the environment variable that makes this binary the watched process, and
// markFolder the beginning of paths that it looks up, so that the trace shows which call is
// running.
const (
	watchedBase = "TOOLROOM_BUILTINTEST_BASE"
	watchedURL  = "TOOLROOM_BUILTINTEST_URL"
	markFolder  = "/toolroom-builtintest/"
)

// prediction is what the receipt of a call predicts.
type prediction struct {
	Tool    string
	Error   string
	Effects []toolroom.Effect
}

// runWatched makes all calls, and prints what their receipts predict.
func runWatched(base string) int {
	ctx := context.Background()
	w, err := openWorld(ctx, base, os.Getenv(watchedURL))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer w.Close()
	out := json.NewEncoder(os.Stdout)
	for _, r := range rows() {
		_, _ = os.Stat(markFolder + r.tool)
		result := w.callValid(ctx, r, "", "m")
		_, _ = os.Stat(markFolder)
		p := prediction{Tool: r.tool}
		if !result.OK() && r.fails == "" {
			p.Error = result.Error.Error()
		}
		receipt, err := w.Receipt(ctx, result.Call)
		if err != nil {
			p.Error += err.Error()
		} else {
			p.Effects = receipt.Expected
		}
		if err := out.Encode(p); err != nil {
			return 1
		}
	}
	return 0
}

// traced is what strace saw of one call.
type traced struct {
	reads, writes, hosts, programs map[string]bool
}

// What strace sees of a call is in the effects that its receipt predicts, and files that it
// predicts to be written are written. Toolroom's own state, temporary files and what the
// system reads to start programs are left out; so is what Chromium does with its profile.
func TestEffectsAreThoseThatStraceSees(t *testing.T) {
	t.Parallel()
	requirePrograms(t, "strace", "chromium", "git")
	s := httptest.NewServer(services())
	defer s.Close()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeWorld(base, s.URL, ""); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), "strace", "-f", "-qq", "-y", "-s", "300", "-e", "signal=none", "-e",
		"trace=execve,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,link,linkat,symlink,symlinkat,truncate,connect,stat,newfstatat", "-o", trace, self)
	cmd.Env = append(os.Environ(), watchedBase+"="+base, watchedURL+"="+s.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	predicted := map[string]prediction{}
	for line := range strings.Lines(string(out)) {
		var p prediction
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		predicted[p.Tool] = p
	}
	calls, err := readTrace(trace)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows() {
		p, ok := predicted[r.tool]
		if !ok || p.Error != "" {
			t.Errorf("%s: %v %s", r.tool, ok, p.Error)
			continue
		}
		if calls[r.tool] == nil {
			t.Errorf("the trace does not have %s", r.tool)
			continue
		}
		judge(t, base, self, r, p, calls[r.tool])
	}
}

func judge(t *testing.T, base, self string, r row, p prediction, s *traced) {
	t.Helper()
	work, browser := filepath.Join(base, "work"), strings.HasPrefix(r.tool, "browser:")
	var read, written, hosts, commands []string
	for _, e := range p.Effects {
		switch {
		case e.Kind == toolroom.EffectFile && e.Mode == "read":
			read = append(read, e.Target)
		case e.Kind == toolroom.EffectFile:
			written = append(written, e.Target)
		case e.Kind == toolroom.EffectHost:
			hosts = append(hosts, e.Target)
		case e.Kind == toolroom.EffectCommand:
			commands = append(commands, e.Target)
		}
	}
	within := func(path string, list []string) bool {
		return slices.ContainsFunc(list, func(allowed string) bool {
			return path == allowed || strings.HasPrefix(path, allowed+"/") || strings.HasPrefix(allowed, path+"/")
		})
	}
	for path := range s.writes {
		// A file is replaced by one that is written beside it.
		besides := slices.ContainsFunc(written, func(allowed string) bool { return filepath.Dir(path) == filepath.Dir(allowed) })
		if strings.HasPrefix(path, base) && !strings.HasPrefix(path, filepath.Join(base, "home")) && !within(path, written) && !besides && len(commands) == 0 {
			t.Errorf("%s writes %s, and predicts %v", r.tool, path, p.Effects)
		}
	}
	for path := range s.reads {
		switch {
		case strings.HasPrefix(path, filepath.Join(base, "outside")):
			t.Errorf("%s reads %s", r.tool, path)
		case strings.HasPrefix(path, work+"/") && !within(path, read) && !within(path, written) && len(commands) == 0:
			t.Errorf("%s reads %s, and predicts %v", r.tool, path, p.Effects)
		}
	}
	for host := range s.hosts {
		if !slices.ContainsFunc(hosts, func(allowed string) bool { return strings.Contains(allowed, host) }) && !browser {
			t.Errorf("%s connects to %s, and predicts %v", r.tool, host, p.Effects)
		}
		// The egress guard looks names up for Chromium, which connects only to it.
		if browser && !strings.HasPrefix(host, "127.0.0.1:") && !strings.HasSuffix(host, ":53") {
			t.Errorf("%s connects to %s", r.tool, host)
		}
	}
	for program := range s.programs {
		name := filepath.Base(program)
		known := program == self || strings.HasPrefix(program, "/proc/self/fd/") || slices.Contains(r.programs, name) ||
			slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, name) })
		if !known && !browser {
			t.Errorf("%s starts %s, and predicts %v", r.tool, program, p.Effects)
		}
	}
	for _, path := range written {
		if strings.HasPrefix(r.tool, "file:") && !s.writes[path] {
			t.Errorf("%s predicts to write %s, and writes %v", r.tool, path, s.writes)
		}
	}
}

var (
	callLine = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+|\?)`)
	pathArg  = regexp.MustCompile(`(?:(AT_FDCWD|\d+)(?:<([^>]*)>)?, )?"((?:[^"\\]|\\.)*)"`)
	inetArg  = regexp.MustCompile(`sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]+)"\)`)
)

// readTrace returns what was seen of each call. A call that another thread interrupted is in
// two lines.
func readTrace(name string) (map[string]*traced, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	calls, begun := map[string]*traced{}, map[string]string{}
	var current *traced
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		pid, rest, _ := strings.Cut(line, " ")
		if before, ok := strings.CutSuffix(line, " <unfinished ...>"); ok {
			begun[pid] = before
			line = before + ") = 0" // for its mark
		} else if _, after, ok := strings.Cut(rest, " resumed>"); ok {
			line = begun[pid] + after
		}
		if _, mark, ok := strings.Cut(line, `"`+markFolder); ok {
			tool, _, _ := strings.Cut(mark, `"`)
			if current = nil; tool != "" {
				if calls[tool] == nil {
					calls[tool] = &traced{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
				}
				current = calls[tool]
			}
			continue
		}
		if m := callLine.FindStringSubmatch(line); current != nil && m != nil {
			current.add(m[2], m[3], m[4])
		}
	}
	return calls, scanner.Err()
}

// add notes a system call.
func (s *traced) add(name, args, result string) {
	if name == "connect" {
		if m := inetArg.FindStringSubmatch(args); m != nil {
			s.hosts[m[2]+":"+m[1]] = true
		}
		return
	}
	if strings.HasPrefix(result, "-") {
		return
	}
	var paths []string
	for _, m := range pathArg.FindAllStringSubmatch(args, -1) {
		path := m[3]
		if !filepath.IsAbs(path) {
			path = filepath.Join(m[2], path)
		}
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		return
	}
	writes := strings.Contains(args, "O_WRONLY") || strings.Contains(args, "O_RDWR") || strings.Contains(args, "O_CREAT") || strings.Contains(args, "O_TRUNC")
	switch {
	case name == "execve":
		s.programs[paths[0]] = true
	case name == "stat" || name == "newfstatat" || strings.Contains(args, "O_PATH"):
	case strings.HasPrefix(name, "open") && !writes:
		s.reads[paths[0]] = true
	default:
		for _, path := range paths {
			s.writes[path] = true
		}
	}
}
