package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// scenario is one file of testdata/golden: steps with what they answer, and the
// files that they need.
type scenario struct {
	archive *txtar.Archive
	// clients are the MCP clients that the whole scenario is played for, each in
	// a world of its own. Without any it is played once.
	clients []string
	lines   []line
}

// line is a step with its input, or a line of prose.
type line struct {
	text  string
	prose bool
	input []string
	// output is what the step answered, by client.
	output map[string]string
}

// Marks of the lines that belong to a step.
const (
	markInput  = "> "
	markClient = "@ "
	markOut    = "| "
	markErr    = "! "
	markState  = "= "
)

func readScenario(t *testing.T, file string) *scenario {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{archive: archive}
	for _, text := range strings.Split(strings.TrimRight(string(archive.Comment), "\n"), "\n") {
		mark := text + " "
		switch {
		case strings.HasPrefix(mark, markInput):
			last := &s.lines[len(s.lines)-1]
			last.input = append(last.input, strings.TrimPrefix(strings.TrimPrefix(text, ">"), " "))
		case slices.ContainsFunc([]string{markClient, markOut, markErr, markState}, func(m string) bool { return strings.HasPrefix(mark, m) }):
			// It is recorded anew.
		case text == "" || text[0] == '#':
			s.lines = append(s.lines, line{text: text, prose: true})
		default:
			s.lines = append(s.lines, line{text: text, output: map[string]string{}})
			if clients, ok := strings.CutPrefix(text, "clients "); ok {
				s.clients = strings.Fields(clients)
			}
		}
	}
	return s
}

// format is the file with what the steps answered.
func (s *scenario) format() string {
	clients := s.clients
	if len(clients) == 0 {
		clients = []string{""}
	}
	var b strings.Builder
	for _, l := range s.lines {
		fmt.Fprintln(&b, l.text)
		for _, in := range l.input {
			fmt.Fprintln(&b, strings.TrimRight(markInput+in, " "))
		}
		if l.prose {
			continue
		}
		// Clients with the same answer are listed before it.
		for i, c := range clients {
			same := []string{}
			for _, other := range clients[i:] {
				if l.output[other] == l.output[c] {
					same = append(same, other)
				}
			}
			if slices.ContainsFunc(clients[:i], func(before string) bool { return l.output[before] == l.output[c] }) {
				continue
			}
			if len(same) < len(clients) {
				fmt.Fprintln(&b, markClient+strings.Join(same, " "))
			}
			b.WriteString(l.output[c])
		}
	}
	return string(txtar.Format(&txtar.Archive{Comment: []byte(b.String()), Files: s.archive.Files}))
}

// play runs the steps, for each client in a world of its own.
func (s *scenario) play(t *testing.T, kit *kit) {
	if len(s.clients) == 0 {
		w := newWorld(t, kit, s.archive, "")
		for i := range s.lines {
			w.play(&s.lines[i], "")
		}
		return
	}
	outputs := make([]map[int]string, len(s.clients))
	// The group ends when all clients have ended.
	t.Run("clients", func(t *testing.T) {
		for n, client := range s.clients {
			outputs[n] = map[int]string{}
			t.Run(strings.ReplaceAll(client, "/", " "), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, kit, s.archive, client)
				for i, l := range s.lines {
					l.output = map[string]string{}
					w.play(&l, client)
					outputs[n][i] = l.output[client]
				}
			})
		}
	})
	for n, client := range s.clients {
		for i := range s.lines {
			if !s.lines[i].prose {
				s.lines[i].output[client] = outputs[n][i]
			}
		}
	}
}

// play runs one step and keeps its output.
func (w *world) play(l *line, client string) {
	if l.prose || strings.HasPrefix(l.text, "clients ") || w.t.Failed() {
		return
	}
	text, input := w.placeholders.restore(l.text), make([]string, len(l.input))
	for i, in := range l.input {
		input[i] = w.placeholders.restore(in)
	}
	l.output[client] = w.step(text, input)
}

// prefixLines puts a mark before each line of text.
func prefixLines(mark, text string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fmt.Fprintln(&b, strings.TrimRight(mark+l, " "))
	}
	if !strings.HasSuffix(text, "\n") {
		fmt.Fprintln(&b, markState+"no newline at the end")
	}
	return b.String()
}

// kit is what all scenarios share: the folder of programs, and the services that
// sources connect to.
type kit struct {
	bin      string
	services string // host and port
}

func newKit(t *testing.T) *kit {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{bin: t.TempDir(), services: serveServices(t)}
	for name := range programs {
		if err := os.Symlink(self, filepath.Join(k.bin, name)); err != nil {
			if runtime.GOOS == "windows" {
				t.Skip(err) // links need a right there
			}
			t.Fatal(err)
		}
	}
	return k
}
