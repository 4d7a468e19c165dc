package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/nearest"
)

// Isolation names what a tool runs in: a strength (none, process, container,
// gvisor, vm) or a driver, which has the strength of its kind. Empty is none.
type Isolation string

// The strengths.
const (
	IsolationNone      Isolation = "none"
	IsolationProcess   Isolation = "process"
	IsolationContainer Isolation = "container"
	IsolationGVisor    Isolation = "gvisor"
	IsolationVM        Isolation = "vm"
)

// strengths orders isolations by what stands between the code and the kernel of
// the host: nothing; a filter of system calls; namespaces, or a WebAssembly
// runtime; a kernel in user space; hardware.
func strengths() map[Isolation]int {
	return map[Isolation]int{
		"": 0, IsolationNone: 0, "host": 0,
		IsolationProcess: 1, "sandbox": 1,
		IsolationContainer: 2, "docker": 2, "containerd": 2, "kubernetes": 2, "lxc": 2, "wasm": 2,
		IsolationGVisor: 3,
		IsolationVM:     4, "kata": 4, "firecracker": 4, "qemu": 4, "microvm": 4,
	}
}

// Strength is the strength that i has: that of its kind for a driver, and none
// for a word that is not known.
func (i Isolation) Strength() Isolation {
	known := strengths()
	for _, s := range [...]Isolation{IsolationVM, IsolationGVisor, IsolationContainer, IsolationProcess} {
		if known[i] == known[s] {
			return s
		}
	}
	return IsolationNone
}

// Walls is the strength of what a sandbox says stands around a program: names
// joined by +, such as wasm+ns+landlock+seccomp, none or docker(runc). The
// strongest wall counts; one that is not known counts as none.
func Walls(text string) Isolation {
	known, strongest := strengths(), IsolationNone
	for name := range strings.SplitSeq(text, "+") {
		name, _, _ = strings.Cut(name, "(")
		wall := Isolation(name)
		switch name {
		case "ns":
			wall = IsolationContainer
		case "landlock", "seccomp":
			wall = IsolationProcess
		}
		if known[wall] > known[strongest] {
			strongest = wall
		}
	}
	return strongest
}

// ParseIsolation reads a word. The error names the nearest one.
func ParseIsolation(text string) (Isolation, error) {
	known := strengths()
	if _, ok := known[Isolation(text)]; ok && text != "" {
		return Isolation(text), nil
	}
	var words []string
	for word := range maps.Keys(known) {
		if word != "" {
			words = append(words, string(word))
		}
	}
	slices.Sort(words)
	if meant, ok := nearest.Of(text, words); ok {
		return "", fmt.Errorf("there is no isolation %q (did you mean %s?)", text, meant)
	}
	return "", fmt.Errorf("there is no isolation %q: there are %s", text, strings.Join(words, ", "))
}

// Holds reports whether i is at least as strong as least. An unknown word is as
// weak as none, and holds for nothing else.
func (i Isolation) Holds(least Isolation) bool {
	if least == "" {
		return true
	}
	known := strengths()
	want, ok := known[least]
	return ok && known[i] >= want
}

// stronger is the stronger of two; of equals the first.
func stronger(a, b Isolation) Isolation {
	if b == "" || a.Holds(b) {
		return a
	}
	return b
}
