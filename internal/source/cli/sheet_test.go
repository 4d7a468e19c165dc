package cli

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

func TestEverySheetIsRead(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(sheetFiles, "sheets/*.yaml")
	if err != nil || len(files) < 10 || len(sheets()) != len(files) {
		t.Fatalf("of %v %d were read, %v", files, len(sheets()), err)
	}
	for name, s := range sheets() {
		if s.Summary == "" || len(s.Denials) == 0 {
			t.Errorf("%s: the sheet is not whole", name)
		}
		both := slices.Concat(s.ReadOnly, s.Destructive, s.NotDestructive)
		slices.Sort(both)
		if len(slices.Compact(slices.Clone(both))) != len(both) {
			t.Errorf("%s: a command is of two kinds: %v", name, both)
		}
		for _, r := range s.Denials {
			if r.Why == "" || len(r.Flags)+len(r.Commands) == 0 {
				t.Errorf("%s: the refusal %+v is not whole", name, r)
			}
		}
	}
}

// sheeted is a source of a program that need not be there.
func sheeted(program string, configure ...func(*Config)) *Source {
	o := Config{Namespace: "p", Command: program}
	for _, f := range configure {
		f(&o)
	}
	return New(o)
}

// TestEveryRefusedFlagIsRefusedInEachOfItsForms tries all flags of all sheets.
func TestEveryRefusedFlagIsRefusedInEachOfItsForms(t *testing.T) {
	t.Parallel()
	for program, sheet := range sheets() {
		for _, r := range sheet.Denials {
			in := r.In
			if len(in) == 0 {
				in = []string{""}
			}
			for _, command := range in {
				path := strings.Fields(command)
				for _, refused := range r.Flags {
					name := strings.TrimLeft(refused, "-")
					forms := []callFlag{{flag: unlistedFlag(name), value: r.Value}}
					if len(name) > 4 {
						forms = append(forms, callFlag{flag: unlistedFlag(name[:len(name)-2]), value: r.Value}) // abbreviated
					}
					if len(name) == 1 && r.Value == "" {
						forms = append(forms, callFlag{flag: unlistedFlag("v"), value: name + "x"}, callFlag{flag: flag{long: "known", short: name}, known: true})
					}
					for _, form := range forms {
						s := sheeted(program)
						err := s.checkDenied(path, []callFlag{form}, nil)
						if e := toolroom.AsError(err); e == nil || e.Code != toolroom.CodeDenied || !strings.Contains(e.Hint, "sources.p.cli.allow") {
							t.Errorf("%s %s %+v: got %v", program, command, form, err)
						}
						if len(path) > 0 { // through the tool of the program
							if err := s.checkDenied(nil, []callFlag{form}, path); err == nil {
								t.Errorf("%s with %s as first word: %+v passes", program, command, form)
							}
						}
					}
				}
			}
			for _, command := range r.Commands {
				words := append(strings.Fields(command), "more")
				if err := sheeted(program).checkDenied(nil, nil, words); toolroom.CodeOf(err) != toolroom.CodeDenied {
					t.Errorf("%s %v: got %v", program, words, err)
				}
				if err := sheeted(program).checkDenied(words[:1], nil, words[1:]); toolroom.CodeOf(err) != toolroom.CodeDenied {
					t.Errorf("%s %v: got %v", program, words, err)
				}
			}
		}
	}
}

func TestAConfigAllowsAndDeniesFlags(t *testing.T) {
	t.Parallel()
	long := func(name string) []callFlag { return []callFlag{{flag: unlistedFlag(name), value: "x"}} }
	for _, c := range []struct {
		allow, deny []string
		path        string
		flags       []callFlag
		refused     string
	}{
		{path: "clone", flags: long("upload-pack"), refused: "--upload-pack"},
		{path: "clone", flags: long("upload-pack"), allow: []string{"--upload-pack"}},
		{path: "clone", flags: long("upload-pack"), allow: []string{"clone --upload-pack"}},
		{path: "fetch", flags: long("upload-pack"), allow: []string{"clone --upload-pack"}, refused: "--upload-pack"},
		{path: "push", flags: long("force")},
		{path: "push", flags: long("force"), deny: []string{"push --force"}, refused: "--force"},
		{path: "push", flags: long("force"), deny: []string{"--force"}, allow: []string{"--force"}, refused: "--force"},
		{path: "add", flags: long("force"), deny: []string{"push --force"}},
		{path: "clean", deny: []string{"clean"}, refused: "clean"},
		{path: "config", refused: "config"},
		{path: "config", allow: []string{"config"}},
	} {
		s := sheeted("git", func(o *Config) { o.Allow, o.Deny = c.allow, c.deny })
		err := s.checkDenied([]string{c.path}, c.flags, nil)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.HasPrefix(err.Error(), c.refused+" is refused for git: ")) {
			t.Errorf("%s %+v, allowed %v, denied %v: got %v", c.path, c.flags, c.allow, c.deny, err)
		}
	}
}

func TestReadingAndDestroyingCommandsAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program, command      string
		readOnly, destructive bool
	}{
		{"git", "log", true, false},
		{"git", "push", false, true},
		{"git", "reset", false, true},
		{"git", "commit", false, false},
		{"git", "", false, true}, // it can be any
		{"docker", "ps", true, false},
		{"docker", "rm", false, true},
		{"docker", "container.rm", false, true},
		{"docker", "container.ls", true, false},
		{"kubectl", "get", true, false},
		{"kubectl", "delete", false, true},
		{"gh", "issue.list", true, false},
		{"gh", "repo.delete", false, true},
		{"npm", "ls", true, false},
		{"find", "", true, false},
		{"curl", "", false, true},
	} {
		h := sheetFor(c.program).hints(c.command, nil)
		if h.IsReadOnly() != c.readOnly || h.IsDestructive() != c.destructive {
			t.Errorf("%s %s: read only %v, destructive %v", c.program, c.command, h.IsReadOnly(), h.IsDestructive())
		}
	}
	if sheetFor("/usr/bin/git").hints("log", []string{"--output"}).IsReadOnly() {
		t.Error("git log is called read-only though the config lets it write files")
	}
}

// schemaOf is the input schema of a help text's command.
func schemaOf(t *testing.T, s *Source, text string, path ...string) map[string]map[string]any {
	t.Helper()
	h := parseHelp(text)
	h.addFlags(parseHelp(s.sheet.Flags).flags)
	s.prepareFlags(h, path)
	var schema struct {
		Properties map[string]map[string]any
	}
	if err := json.Unmarshal(h.schema(), &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Properties
}

// TestRecordedHelpBecomesSchemas reads what docker, kubectl, gh and npm print.
func TestRecordedHelpBecomesSchemas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file     string
		commands []string
		absent   []string          // words that are no commands or flags
		flags    map[string]string // and the beginning of their texts
	}{
		{file: "docker", commands: []string{"run", "container", "swarm", "wait"}},
		{file: "docker-container", commands: []string{"ls", "rm", "prune"}},
		{file: "docker-run", absent: []string{"1", "privileged", "cap_add"}, flags: map[string]string{
			"annotation": "Add an annotation to the container (passed through to the OCI runtime)", "blkio_weight": "Block IO (relative weight), between 10 and 1000, or 0 to disable (default 0)",
			"volume": "Bind mount a volume",
		}},
		{file: "kubectl", commands: []string{"get", "delete", "config", "rollout"}, absent: []string{"options:"}},
		{file: "kubectl-config", commands: []string{"view", "get-contexts"}},
		{file: "kubectl-get", absent: []string{"server"}, flags: map[string]string{
			"all_namespaces": "If present, list the requested object(s) across all namespaces.", "output": "Output format. One of:", "namespace": "The namespace of the request", "watch": "After listing/getting the requested object",
		}},
		{file: "gh", commands: []string{"issue", "pr", "repo"}, absent: []string{"environment", "formatting"}},
		{file: "gh-issue", commands: []string{"create", "list", "view"}},
		{file: "gh-issue-list", flags: map[string]string{"limit": "Maximum number of issues to fetch", "repo": "Select another repository", "state": "Filter by state"}},
		{file: "npm-install", absent: []string{"global", "allow_scripts"}, flags: map[string]string{"save_exact": "Dependencies saved to package.json", "omit": "Dependency types to omit"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("testdata", "help", c.file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Split(c.file, "-")
			h := parseHelp(string(text))
			for _, want := range c.commands {
				if !h.has(want) || h.commandText(want) == "" {
					t.Errorf("the command %s was not found among %v", want, h.commands)
				}
			}
			properties := schemaOf(t, sheeted(words[0]), string(text), words[1:]...)
			for _, no := range c.absent {
				if _, found := properties[no]; found || h.has(no) {
					t.Errorf("%s is no command and no flag to offer", no)
				}
			}
			for name, want := range c.flags {
				if got, _ := properties[name]["description"].(string); !strings.HasPrefix(got, want) {
					t.Errorf("%s says %q, want %q", name, got, want)
				}
			}
		})
	}
	if omit := schemaOf(t, sheeted("npm"), read(t, "npm-install"), "install")["omit"]; slices.Equal([]any{"boolean"}, []any{omit["type"]}) {
		t.Error("npm install --omit takes a value, as its synopsis says")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "help", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRealProgramsShowTheirFlags asks the programs that are installed.
func TestRealProgramsShowTheirFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program, tool string
		flags         []string
		absent        []string
		manual        bool // the flags come from a manual page, which may not be installed
	}{
		{program: "git", tool: "log", flags: []string{"oneline", "max_count", "since", "graph"}, absent: []string{"output"}, manual: true},
		{program: "git", tool: "commit", flags: []string{"message", "all"}},
		{program: "git", tool: "push", flags: []string{"force", "tags"}, absent: []string{"receive_pack", "exec"}},
		{program: "docker", tool: "container.ls", flags: []string{"all", "filter"}},
		{program: "docker", tool: "run", flags: []string{"rm", "env"}, absent: []string{"privileged"}},
		{program: "kubectl", tool: "get", flags: []string{"output", "namespace"}, absent: []string{"server"}},
		{program: "kubectl", tool: "config.view", flags: []string{"minify"}},
		{program: "gh", tool: "issue.list", flags: []string{"state", "label"}},
		{program: "npm", tool: "install", flags: []string{"save_exact", "omit"}, absent: []string{"global"}},
		{program: "curl", tool: "curl", flags: []string{"request", "header", "data"}, absent: []string{"output", "config"}},
		{program: "tar", tool: "tar", flags: []string{"create", "extract", "file"}, absent: []string{"to_command"}},
		{program: "find", tool: "find", flags: []string{"name", "type", "maxdepth"}, absent: []string{"exec", "delete"}},
		{program: "rsync", tool: "rsync", flags: []string{"archive", "dry_run"}, absent: []string{"rsh"}},
		{program: "ssh", tool: "ssh", flags: []string{"p", "l"}, absent: []string{"o"}, manual: true},
	} {
		t.Run(c.program+" "+c.tool, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				if os.Getenv("CI") == "true" && slices.Contains([]string{"git", "npm", "curl", "tar", "find"}, c.program) {
					t.Fatal(err) // CI has these
				}
				t.Skipf("%s is not here; TestRecordedHelpBecomesSchemas reads what it printed elsewhere", c.program)
			}
			page := strings.Fields(c.program + " " + strings.ReplaceAll(strings.TrimPrefix(c.tool, c.program), ".", " "))
			if c.manual && len(manualFlags(page[0], page[1:])) == 0 {
				t.Skipf("the manual page of %v is not here", page)
			}
			s := open(t, c.program)
			tool, err := s.Refine(t.Context(), toolroom.ID{Namespace: "p", Name: c.tool})
			for toolroom.CodeOf(err) == toolroom.CodeTimeout { // the machine is busy
				tool, err = s.Refine(t.Context(), toolroom.ID{Namespace: "p", Name: c.tool})
			}
			if err != nil {
				t.Fatal(err)
			}
			var schema struct{ Properties map[string]any }
			if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.flags {
				if schema.Properties[want] == nil {
					t.Errorf("the schema of %s lacks %s", c.tool, want)
				}
			}
			for _, no := range c.absent {
				if schema.Properties[no] != nil {
					t.Errorf("the schema of %s offers %s", c.tool, no)
				}
			}
		})
	}
}

func TestFlagsAreInTheListOfAProgramThatSaysThatItsCommandsHaveHelp(t *testing.T) {
	t.Parallel()
	program := script(t, `
case "$*" in
--help) printf 'Usage: x [command]\n\nCommands:\n  group  A group\n  one    One\n\nUse "x [command] --help" for more.\n' ;;
"group --help") printf 'Usage: x group COMMAND\n\nCommands:\n  ls  List them\n' ;;
"group ls --help") printf 'Usage: x group ls [flags]\n\nFlags:\n  -a, --all    All of\n               them\n' ;;
"one --help") printf 'Usage: x one\n\nFlags:\n      --on    Be on (default true)\n' ;;
*) printf '<%s>' "$@" ;;
esac`)
	s := open(t, program)
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]string{}
	for _, tool := range tools {
		schemas[tool.ID.Name] = string(tool.InputSchema)
	}
	if !strings.Contains(schemas["group.ls"], "All of them") || !strings.Contains(schemas["one"], "Be on") || len(tools) != 4 {
		t.Errorf("listed %v", schemas)
	}
	if r, _, err := run(t.Context(), s, "group.ls", `{"all":true,"_":["x"]}`, nil); err != nil || r.Stdout != "<group><ls><--all><x>" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, _, err := run(t.Context(), s, "one", `{"on":false}`, nil); err != nil || r.Stdout != "<one><--on=false>" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestARefusedCallDoesNotStartTheProgram(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, c := range []struct{ program, tool, args, refused string }{
		{"find", "find", `{"_":["."],"exec":"touch ran"}`, "-exec"},
		{"find", "find", `{"_":["--",".","-exec","touch","ran",";"]}`, "-exec"},
		{"tar", "tar", `{"_":["xIf","touch ran","a.tar"]}`, "xIf"},
		{"tar", "tar", `{"to_command":"touch ran","extract":true,"file":"a.tar"}`, "--to-command"},
		{"tar", "tar", `{"use_compress":"touch ran","create":true,"file":"a.tar"}`, "--use-compress-program"},
		{"git", "git", `{"c":"core.pager=touch ran","_":["log"]}`, "-c"},
		{"git", "git", `{"_":["config","core.pager","touch ran"]}`, "config"},
		{"git", "clone", `{"upload_pack":"touch ran","_":["a","b"]}`, "--upload-pack"},
		{"curl", "curl", `{"o":"ran","_":["http://127.0.0.1:1"]}`, "--output"},
		{"ssh", "ssh", `{"o":"ProxyCommand=touch ran","_":["host"]}`, "-o"},
	} {
		if _, err := exec.LookPath(c.program); err != nil {
			t.Logf("%s is not here", c.program)
			continue
		}
		s := open(t, c.program, func(o *Config) { o.Dir = folder })
		out, err := s.Call(t.Context(), &source.Request{
			Tool: toolroom.ID{Namespace: "p", Name: c.tool}, Arguments: json.RawMessage(c.args), Emit: func(toolroom.Event) {},
		})
		if toolroom.CodeOf(err) != toolroom.CodeDenied || !strings.HasPrefix(err.Error(), c.refused+" is refused for "+c.program) || !out.Unsent {
			t.Errorf("%s %s: got %v", c.tool, c.args, err)
		}
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Errorf("a refused call left %v", left)
	}
}

func TestFindTakesItsTestsBehindTheFolders(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("find"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("find is not here")
	}
	folder := t.TempDir()
	for _, name := range []string{"a.txt", "b.md"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, "find", func(o *Config) { o.Dir = folder })
	r, _, err := run(context.Background(), s, "find", `{"_":["."],"print":true,"type":"f","name":"*.txt","size":"-4k"}`, nil)
	if err != nil || r.Stdout != "./a.txt\n" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestManualPagesAreRead(t *testing.T) {
	t.Parallel()
	for style, text := range map[string]string{
		"DocBook": ".SH \"OPTIONS\"\n.PP\n\\-n <number>, \\-\\-max\\-count=<number>\n.RS 4\nLimit the \\fInumber\\fR of commits\\&. More\\&.\n.RE\n.PP\n\\-\\-no\\-color, \\-\\-color[=<when>]\n.RS 4\nColour\\&.\n.RE\n",
		"curl":    ".SH OPTIONS\n.IP \"-n, --max-count <number>\"\nLimit the number of commits. More.\n.IP \"--color [when]\"\nColour.\n",
		"man":     ".SH OPTIONS\n.TP\n\\fB\\-n\\fR, \\fB\\-\\-max\\-count\\fR=\\fINUMBER\\fR\nLimit the number of commits.\nMore.\n.TP\n.BR \\-\\-color [=\\fIWHEN\\fR]\nColour.\n",
		"mdoc":    ".Bl -tag\n.It Fl n Ar number , Fl Fl max-count Ar number\nLimit the number of commits.\n.Pp\nMore.\n.It Fl Fl color\nColour.\n.El\n",
	} {
		flags := parseManual(text)
		if len(flags) != 2 || flags[0].long != "max-count" || flags[0].short != "n" || flags[0].value != numberValue ||
			!strings.HasPrefix(flags[0].text, "Limit the number of commits.") || flags[1].long != "color" || flags[1].text != "Colour." {
			t.Errorf("%s: read %+v", style, flags)
		}
	}
}

func FuzzManualsAreReadWithoutHarm(f *testing.F) {
	f.Add(".TP\n\\-\\-a=\\fIb\\fR\ntext\n.IP \"-x\n.It Fl\n")
	f.Fuzz(func(t *testing.T, text string) {
		h := &help{}
		h.addFlags(parseManual(text))
		if len(h.flags) > maxFlags || !json.Valid(h.schema()) {
			t.Errorf("%d flags, the schema is %s", len(h.flags), h.schema())
		}
	})
}

func TestConfiguredSubCommandsAreTheTools(t *testing.T) {
	t.Parallel()
	s := open(t, "git", func(o *Config) { o.Subcommands = []string{"version", "remote add"} })
	for range 2 { // the second list is that of a reload
		tools, err := s.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range tools {
			names = append(names, tool.ID.Name)
		}
		if want := []string{"git", "version", "remote.add"}; !slices.Equal(names, want) {
			t.Errorf("got %q, want %q", names, want)
		}
	}
}

func (h *help) has(command string) bool {
	return slices.ContainsFunc(h.commands, func(c subcommand) bool { return c.name == command })
}
