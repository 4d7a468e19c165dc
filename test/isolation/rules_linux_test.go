package isolation

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

// Attacks on a file F in a folder K of a workspace W, as lines for bash. B is a line that
// does the same in base64.
var (
	removals = []string{
		`rm F`, `rm -rf K`, `/bin/rm F`, `\rm F`, `'r'm F`, `r$()m F`, `x=rm; $x F`, `x=r; y=m; $x$y F`, `env rm F`, `env - rm F`, `env -vS 'rm F'`, `xargs -i rm {} <<< F`,
		`xargs env <<< 'rm F'`, `echo F | xargs rm`, `find K -name '*.txt' -delete`, `find K -type f -exec rm {} +`, `echo B | base64 -d | sh`, `eval "$(echo B | base64 -d)"`,
		`bash <<< 'rm F'`, `printf 'rm F' > s.sh; sh s.sh`, `printf '#!/bin/sh\nrm F' > s2; chmod +x s2; ./s2`, `. ./helper.sh`, `sh helper.sh`,
		`python3 -c 'import os; os.remove("F")'`, `python3 -c "import shutil; shutil.rmtree('K')"`, `python3 helper.py`, `perl -e 'unlink "F"'`, `perl -e 'system("rm F")'`,
		`python3 - <<'E'
import os
os.unlink("F")
E`, `awk 'BEGIN{system("rm F")}'`, `mv F W/gone`, `mv K W/gone`, `unlink F`, `shred -u F`, `truncate -s 0 F`, `: > F`, `cp /dev/null F`, `dd if=/dev/null of=F`, `tee F < /dev/null`,
		`cd K && rm file.txt`, `cd / && rm .F`, `trap -- 'rm F' EXIT`, `x='a[$(rm F)]'; echo $((x))`, `x='$(rm F)'; echo ${x@P}`, `printf -v 'a[$(rm F)]' x`, `setarch -R rm F`,
		`timeout 5 rm F`, `nice rm F`, `nohup rm F`, `setsid -w rm F`, `stdbuf -o0 rm F`, `/lib64/ld-linux-x86-64.so.2 /bin/rm F`, `cp /bin/rm W/safe; W/safe F`, `ln -s /bin/rm W/safe2; W/safe2 F`,
		`cat /bin/rm > W/copy; chmod +x W/copy; W/copy F`, `git -c alias.x='!rm F' x`, `git -c core.pager='rm F' -p --version`, `sed -n '1e rm F' helper.sh`, `sed -i d F`,
		`make --eval='$(shell rm F)' -n x`, `tar cf - --remove-files F`, `sh -c 'sh -c "sh -c \"rm F\""'`, `ln -sfn K link; rm link/file.txt`, `coproc rm F; wait`, `exec 3>F`, `sort -o F /dev/null`,
		`(sleep 0; rm F) & wait`, `function ls { command rm "$@"; }; ls F`, `alias q=rm; shopt -s expand_aliases; eval 'q F'`, `unshare -Urm sh -c 'umount -l K; umount -l F; rm F; mount --bind W W; rm F'`,
		`python3 -c 'import ctypes; ctypes.CDLL(None).unlink(b"F")'`, `mount -o remount,rw K; umount F; rm F`, `chmod 777 F; rm F`, `rsync -a --delete empty/ K/`, `mv W/. W/../other; rm W/../other/keep/file.txt`,
		`rm /proc/self/root/F`, `rm /proc/self/cwd/keep/file.txt`, `rm /proc/1/root/F`, `rename 's/file/gone/' F`, `install /dev/null F`, `mv K old; mkdir K; echo new > F`,
	}
	// V is the file through links, the first of which is W/sub/via. A reader of the
	// lines does not see that they write there.
	relinkings = []string{
		`rm W/sub/via; mkdir -p W/sub/via/keep; echo evil > $(echo V)`, `ln -sfn W/empty W/sub/via; mkdir W/empty/keep; echo evil > $(echo V)`, `mv W/sub/via W/sub/old; mkdir -p W/sub/via/keep; echo evil > $(echo V)`,
		`mv W/sub W/old; mkdir -p W/sub/via/keep; echo evil > $(echo V)`, `mv -T W/empty W/sub/via || rm -f W/sub/via; mkdir -p W/sub/via/keep; cp helper.sh $(echo V)`,
		`rm W/hops/hop; mkdir -p W/hops/hop/keep; echo evil > $(echo V)`, `ln -sfn W/empty W/hops/hop; mkdir W/empty/keep; echo evil > $(echo V)`, `mv W/hops W/old; mkdir -p W/hops/hop/keep; echo evil > $(echo V)`,
		`python3 -c 'import os; os.unlink("W/hops/hop"); os.makedirs("W/hops/hop/keep"); open("V", "w").write("evil")'`,
	}
	readings = []string{
		`cat F`, `cat < F`, `< F tee`, `read -r x < F; echo "$x"`, `mapfile a < F; echo "${a[@]}"`, `echo "$(<F)"`, `cat K/*`, `cat K/f?le.txt`, `cd K; cat file.txt`, `tac F`, `column F`, `paste F`, `fold F`, `comm F /dev/null`,
		`join F F`, `expand F`, `fmt F`, `pr F`, `shuf F`, `iconv F`, `gzip -c F | gunzip`, `xz -c F | xz -d`, `basenc --base16 F | basenc -d --base16`, `split F W/part; cat W/part*`, `file -f F`, `date -f F`, `ul F`, `ptx F`,
		`git diff --no-index /dev/null F`, `git -C K grep --no-index TOP`, `gcc @F`, `history -r F; history`, `echo F | xargs cat`, `xargs -a F echo`, `HOME=K; cat ~/file.txt`, `curl -s file:F`, `curl -s file://F`, `ln -sfn K l; cat l/file.txt`,
		`ln F hard; cat hard`, `cp F c; cat c`, `cp -r K c2; cat c2/file.txt`, `mv K m; cat m/file.txt`, `tar cO F | tar xO`, `python3 -c 'print(open("F").read())'`, `perl -ne print F`, `awk 1 F`, `sed '' F`, `grep -r TOP K`, `grep '' F`, `dd if=F`,
		`. F`, `bash -v F`, `strings F`, `od -c F | tr -d ' '; head F`, `diff F /dev/null`, `sort F`, `base64 F | base64 -d`, `nl F`, `rev F | rev`, `cut -c1- F`, `cat W/keep/../keep/file.txt`, `cat /proc/self/root/F`, `cat /proc/self/cwd/keep/file.txt`,
		`python3 helper.py read`, `echo Q | base64 -d | sh`, `x=F; cat $x`, `cat <<< "$(cat F)"`, `find K -type f -exec cat {} \;`, `exec 5<F; cat <&5`, `unshare -Urm sh -c 'umount -l K; umount -l F; cat F'`, `cat /proc/1/root/F`, `while read -r l; do echo $l; done < F`,
		`busybox cat F`, `php -r 'readfile("F");'`, `ruby -e 'print File.read("F")'`, `node -e 'console.log(require("fs").readFileSync("F","utf8"))'`, `cpio -o <<< F | strings`, `ssh -F F localhost`, `openssl enc -base64 -in F | base64 -d`, `jq -R . F`, `vim -es -c '%p' -c q F`, `ed -s F <<< p`,
	}
	connections = []string{
		`curl -s URL`, `curl -s --noproxy '*' URL`, `python3 -c 'import urllib.request as u; print(u.urlopen("URL").read())'`, `python3 -c 'import socket; s=socket.create_connection(("127.0.0.1", PORT)); s.send(b"GET / HTTP/1.0\r\n\r\n"); print(s.recv(99))'`,
		`exec 3<>/dev/tcp/127.0.0.1/PORT; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3`, `perl -MIO::Socket -e '$s=IO::Socket::INET->new("127.0.0.1:PORT"); print $s "GET / HTTP/1.0\r\n\r\n"; print <$s>'`, `h=127.0.0; curl -s http://$h.1:PORT/`, `curl -s http://2130706433:PORT/`,
		`curl -s http://0x7f.1:PORT/`, `curl -s http://127.1:PORT/`, `wget -qO- URL`, `env -u HTTP_PROXY -u http_proxy curl -s URL`, `curl -s --resolve a.example:PORT:127.0.0.1 http://a.example:PORT/`, `curl -s --connect-to ::127.0.0.1:PORT http://b.example/`, `git ls-remote URL`,
	}
)

// workspace is a workspace with a file to attack.
type workspace struct {
	t                *testing.T
	dir, file, place string
	url              string
	reached          *atomic.Int64
	r                *app.App
}

const topSecret = "TOPSECRET of the operator"

// newWorkspace returns a room whose commands run in a place: the shell's sandbox, the shell
// on the host machine, or a source of the program bash, which may have a sandbox.
func newWorkspace(t *testing.T, guest, place string, rules ...string) *workspace {
	t.Helper()
	a := &workspace{t: t, place: place, reached: new(atomic.Int64)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { a.reached.Add(1) }))
	t.Cleanup(s.Close)
	a.url = s.URL
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a.dir = filepath.Join(top, "work")
	a.file = filepath.Join(a.dir, "keep", "file.txt")
	for i := range rules {
		rules[i] = a.expand(rules[i])
	}
	quoted, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("tools: {deny: %s}\n", quoted)
	switch place {
	case "sandbox":
		config += "builtin: {shell: {network: host}}\n"
	case "host":
		config += "builtin: {shell: {runtime: host}}\n"
	case "source":
		config += "sources: {bash: {cli: {command: bash, cwd: " + a.dir + "}}}\n"
	case "sandboxed source":
		config += "sources: {bash: {cli: {command: bash, cwd: " + a.dir + "}, sandbox: {write: [" + a.dir + "], hosts: [127.0.0.1]}}}\n"
	}
	file := filepath.Join(top, "toolroom.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a.restore()
	a.r, err = app.Open(t.Context(), app.Options{ConfigFile: file, Home: filepath.Join(top, "home"), Workspace: a.dir, Helper: self, Guest: app.Guest{Path: guest}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.r.Close()
		a.r = nil // the test of all parallel subtests keeps their cleanups in memory, and so all rooms
	})
	return a
}

func (a *workspace) expand(line string) string {
	encode := func(line string) string { return base64.StdEncoding.EncodeToString([]byte(a.expand(line))) }
	port := a.url[strings.LastIndexByte(a.url, ':')+1:]
	for _, pair := range [][2]string{{"URL", a.url + "/"}, {"PORT", port}} {
		line = strings.ReplaceAll(line, pair[0], pair[1])
	}
	words := map[string]func() string{
		"F": func() string { return a.file }, "V": func() string { return a.linkedPath() }, "K": func() string { return filepath.Dir(a.file) }, "W": func() string { return a.dir },
		"B": func() string { return encode("rm F") }, "Q": func() string { return encode("cat F") },
	}
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		alone := (i == 0 || !isWord(line[i-1])) && (i+1 == len(line) || !isWord(line[i+1]))
		option := i > 0 && line[i-1] == '-'
		if value, ok := words[line[i:i+1]]; ok && alone && !option {
			b.WriteString(value())
			continue
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// restore recreates the workspace.
func (a *workspace) restore() {
	a.t.Helper()
	entries, _ := os.ReadDir(a.dir)
	for _, e := range entries {
		os.RemoveAll(filepath.Join(a.dir, e.Name()))
	}
	os.RemoveAll(filepath.Join(filepath.Dir(a.dir), "other"))
	for name, text := range map[string]string{
		"keep/file.txt": topSecret + "\n", "helper.sh": "rm F\n", "empty/none": "",
		"helper.py": "import os, sys\nprint(open('F').read()) if sys.argv[1:] else os.remove('F')\n",
	} {
		path := filepath.Join(a.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			a.t.Fatal(err)
		}
		if name != "keep/file.txt" {
			text = a.expand(text)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	for path, to := range map[string]string{"sub/via": "../hops/hop", "hops/hop": ".."} {
		path = filepath.Join(a.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			a.t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			a.t.Fatal(err)
		}
	}
}

// run runs a line and returns its result as JSON.
func (a *workspace) run(line string) (output string, refused bool) {
	a.t.Helper()
	call := toolroom.Call{Tool: "shell:exec"}
	args := map[string]any{"command": line, "timeout": 20000}
	if strings.HasSuffix(a.place, "source") {
		call.Tool, args = "bash:bash", map[string]any{"_": []string{}, "stdin": line}
	}
	call.Arguments = a.arguments(args)
	result := a.r.Run(a.t.Context(), call)
	text, err := json.Marshal(result)
	if err != nil {
		a.t.Fatal(err)
	}
	code := toolroom.Code("")
	if result.Error != nil {
		code = result.Error.Code
	}
	if code == toolroom.CodeInvalidArguments || code == toolroom.CodeToolNotFound || code == toolroom.CodeInternal {
		a.t.Fatalf("%s: %s", line, text)
	}
	return string(text), code == toolroom.CodeDenied || code == toolroom.CodeSandboxUnavailable
}

// linkedPath returns the path of the file through two links.
func (a *workspace) linkedPath() string {
	return filepath.Join(a.dir, "sub", "via", "keep", "file.txt")
}

func isIntact(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && string(text) == topSecret+"\n"
}

// damage is what a line has done to the workspace.
type damage struct {
	read    bool // its output has the secret
	changed bool // the file is changed
	gone    bool
	through bool // the file, reached through links, is changed
	reached bool // it has connected to the server
}

// attack restores the workspace, runs a line in it, and returns the damage.
func (a *workspace) attack(line string) (did damage, output string, refused bool) {
	a.t.Helper()
	a.restore()
	output, refused = a.run(a.expand(line))
	_, err := os.Stat(a.file)
	return damage{
		read: strings.Contains(output, "TOPSECRET"), changed: !isIntact(a.file), gone: err != nil, through: !isIntact(a.linkedPath()), reached: a.reached.Swap(0) > 0,
	}, output, refused
}

// baseline tries lines in rooms without rules, each line once in each place. All kinds of
// rules are compared with it.
type baseline struct {
	mu   sync.Mutex
	room map[string]*workspace
	did  map[[2]string]damage
}

func newBaseline(t *testing.T, guest string, places ...string) *baseline {
	b := &baseline{room: map[string]*workspace{}, did: map[[2]string]damage{}}
	for _, place := range places {
		b.room[place] = newWorkspace(t, guest, place)
	}
	return b
}

func (b *baseline) attack(t *testing.T, place, line string) damage {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	did, ok := b.did[[2]string{place, line}]
	if !ok {
		b.room[place].t = t
		did, _, _ = b.room[place].attack(line)
		b.did[[2]string{place, line}] = did
	}
	return did
}

// However a command is spelled, it does not break a rule. Each attack is first tried
// without rules, where it must do its work to count. A short test tries each line in one
// place, and in CI in all, but for the slowest.
//
// It is not in the tests of package app because it starts thousands of processes, each of which
// begins as a copy of the page tables of this one: it must be small.
func TestRulesHoldWhateverTheSpelling(t *testing.T) {
	t.Parallel()
	read := func(d damage) bool { return d.read }
	changed := func(d damage) bool { return d.changed }
	gone := func(d damage) bool { return d.gone }
	through := func(d damage) bool { return d.through }
	reached := func(d damage) bool { return d.reached }
	// Only what rm itself removes counts.
	rm := slices.DeleteFunc(slices.Clone(removals), func(line string) bool {
		return !strings.Contains(line, "rm ") && !strings.Contains(line, "B ") || strings.Contains(line, "busybox")
	})
	places := []string{"sandbox", "host", "source", "sandboxed source"}
	sparse := testing.Short() && os.Getenv("CI") == ""
	inside, anywhere := places, []string{"sandbox", "sandboxed source"}
	if testing.Short() {
		inside, anywhere = places[:3], places[:1]
	}
	kinds := []struct {
		name, rule string
		lines      []string
		atLeast    int // attacks that work without a rule
		broke      func(damage) bool
		places     []string
	}{
		{"files may not be changed", "effect:file.write:K/**", removals, 60, changed, places},
		{"files may not be read", "effect:file:K/**", readings, 60, read, places},
		{"a file may not be read", "effect:file.read:F", readings, 60, read, places},
		{"a file may not be written through links", "effect:file.write:V", slices.Concat(removals, relinkings), 60, through, places},
		{"a program may not run", "effect:command:rm", rm, 30, changed, places},
		{"a host may not be reached", "effect:host:127.0.0.1", connections, 6, reached, places},
		{"written below a folder with any name", "effect:file.write:W/*/file.txt", removals, 50, changed, inside},
		{"written below folders", "effect:file.write:W/**/file.txt", removals, 50, changed, inside},
		{"read below a folder with any name", "effect:file.read:W/k*p/**", readings, 50, read, inside},
		{"read below folders", "effect:file:W/**/f*.txt", readings, 50, read, inside},
		{"read anywhere", "effect:file.read:**/keep/file.txt", readings, 50, read, anywhere},
		{"deleted in a folder", "effect:file.delete:K/**", removals, 40, gone, inside},
		{"deleted by any name", "effect:file.delete:W/*/f*.txt", removals, 40, gone, inside},
		{"a program by path", "effect:command:/usr/bin/rm", rm, 30, changed, inside},
		{"a program in any folder", "effect:command:*/rm", rm, 30, changed, inside},
	}
	guest := filepath.Join(t.TempDir(), "toolroom-guest")
	if err := enginetest.BuildGuest(guest); err != nil {
		t.Fatal(err)
	}
	free := newBaseline(t, guest, places...)
	for _, kind := range kinds {
		for m, place := range kind.places {
			t.Run(place+"/"+kind.name, func(t *testing.T) {
				t.Parallel()
				held := newWorkspace(t, guest, place, kind.rule)
				worked, refused := 0, 0
				for i, line := range kind.lines {
					if sparse && i%len(kind.places) != m {
						continue
					}
					if !kind.broke(free.attack(t, place, line)) {
						continue // not here, or not installed
					}
					worked++
					did, output, no := held.attack(line)
					if no {
						refused++
					}
					if kind.broke(did) {
						t.Errorf("%s\n%s", line, output)
					}
				}
				atLeast := kind.atLeast
				if place == "sandboxed source" && atLeast < 10 {
					atLeast = 1 // whatever does not use the proxy reaches nothing there anyway
				}
				if sparse {
					atLeast = (atLeast + 2) / (2 * len(kind.places))
				}
				t.Logf("%d attacks work without a rule; with it %d were refused and %d ran in vain", worked, refused, worked-refused)
				if worked < atLeast {
					t.Errorf("only %d attacks work without a rule, want %d", worked, atLeast)
				}
				// What no rule denies still works.
				held.restore()
				if output, no := held.run(held.expand("echo fine > W/empty/none && cat W/empty/none helper.sh | wc -l")); no || !strings.Contains(output, `2\n`) {
					t.Errorf("a command that keeps the rules: %s", output)
				}
			})
		}
	}
}

func (a *workspace) arguments(args map[string]any) json.RawMessage {
	text, err := json.Marshal(args)
	if err != nil {
		a.t.Fatal(err)
	}
	return text
}
