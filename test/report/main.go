// Command report runs go test with its arguments, prints what go test prints, and at the
// end the tests that were skipped, by reason: report ARGUMENTS.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	report(out, os.Stdout)
	if cmd.Wait() != nil {
		os.Exit(1)
	}
}

// event is one of go doc test2json.
type event struct{ Action, Package, Test, Output string }

// report reads events and prints the result of each package, the output of tests that
// failed, and all that was skipped.
func report(in io.Reader, out io.Writer) {
	outputs := map[[2]string]string{} // the output of each running test
	skipped := map[string][]string{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		switch {
		case line == "":
		case json.Unmarshal([]byte(line), &e) != nil:
			fmt.Fprint(out, line) // of go itself
		default:
			e.take(out, outputs, skipped)
		}
		if err != nil {
			break
		}
	}
	if len(skipped) == 0 {
		return
	}
	fmt.Fprintln(out, "\nskipped:")
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		tests := skipped[reason]
		fmt.Fprintf(out, "  %s\n    %s\n", reason, strings.Join(tests[:min(len(tests), maxNamed)], ", "))
		if len(tests) > maxNamed {
			fmt.Fprintf(out, "    and %d more\n", len(tests)-maxNamed)
		}
	}
}

// maxNamed is the largest number of tests that are named for one reason.
const maxNamed = 6

func (e event) take(out io.Writer, outputs map[[2]string]string, skipped map[string][]string) {
	test := [2]string{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		noise := e.Output == "PASS\n" || strings.HasSuffix(e.Output, "[no test files]\n")
		switch {
		case e.Test != "":
			outputs[test] += e.Output
		case !noise:
			fmt.Fprint(out, e.Output)
		}
	case "fail":
		fmt.Fprint(out, outputs[test])
		delete(outputs, test)
		if e.Test != "" {
			return
		}
		for test, output := range outputs { // of a process that died before they ended
			if test[0] == e.Package {
				fmt.Fprint(out, output)
				delete(outputs, test)
			}
		}
	case "skip":
		if e.Test != "" {
			reason := reason(outputs[test])
			skipped[reason] = append(skipped[reason], e.Package[strings.LastIndex(e.Package, "/")+1:]+"."+e.Test)
		}
		delete(outputs, test)
	case "pass":
		// Of a process that died go test says that the last test has passed, whose output
		// then has the reason and no result.
		if e.Test == "" || strings.Contains(outputs[test], "--- PASS") {
			delete(outputs, test)
		}
	}
}

// reason returns what t.Skip printed last: the text after the file and line.
func reason(output string) string {
	found := "no reason"
	for line := range strings.Lines(output) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok = strings.Cut(text, ": "); ok {
				found = strings.TrimSpace(text)
			}
		}
	}
	return found
}
