package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
)

// strengths orders isolations by what separates the code from the kernel of the host machine:
// nothing; a system call filter; namespaces or a WebAssembly runtime; a kernel in user space;
// hardware.
func strengths() map[toolroom.Isolation]int {
	return map[toolroom.Isolation]int{
		"": 0, toolroom.IsolationNone: 0, "host": 0,
		toolroom.IsolationProcess: 1, "sandbox": 1,
		toolroom.IsolationContainer: 2, "docker": 2, "containerd": 2, "kubernetes": 2, "lxc": 2, "wasm": 2,
		toolroom.IsolationGVisor: 3,
		toolroom.IsolationVM:     4, "kata": 4, "firecracker": 4, "qemu": 4, "microvm": 4,
	}
}

// Strength returns the kind of isolation that i is as strong as. It is none for an unknown word.
func Strength(i toolroom.Isolation) toolroom.Isolation {
	known := strengths()
	for _, s := range [...]toolroom.Isolation{toolroom.IsolationVM, toolroom.IsolationGVisor, toolroom.IsolationContainer, toolroom.IsolationProcess} {
		if known[i] == known[s] {
			return s
		}
	}
	return toolroom.IsolationNone
}

// IsolationOf returns the strongest isolation of a sandbox's layers, given as the sandbox names
// them, such as wasm+ns+landlock+seccomp, none or docker(runc). An unknown layer counts as none.
func IsolationOf(text string) toolroom.Isolation {
	known, strongest := strengths(), toolroom.IsolationNone
	for name := range strings.SplitSeq(text, "+") {
		name, _, _ = strings.Cut(name, "(")
		layer := toolroom.Isolation(name)
		switch name {
		case "ns":
			layer = toolroom.IsolationContainer
		case "landlock", "seccomp":
			layer = toolroom.IsolationProcess
		}
		if known[layer] > known[strongest] {
			strongest = layer
		}
	}
	return strongest
}

// ParseIsolation parses the name of an isolation. The error suggests the nearest name.
func ParseIsolation(text string) (toolroom.Isolation, error) {
	known := strengths()
	if _, ok := known[toolroom.Isolation(text)]; ok && text != "" {
		return toolroom.Isolation(text), nil
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

// AtLeast reports whether i is at least as strong as least. An unknown i is as weak as none, and
// nothing is as strong as an unknown least.
func AtLeast(i, least toolroom.Isolation) bool {
	if least == "" {
		return true
	}
	known := strengths()
	want, ok := known[least]
	return ok && known[i] >= want
}

// stronger returns the stronger of a and b, or a if they are equally strong.
func stronger(a, b toolroom.Isolation) toolroom.Isolation {
	if b == "" || AtLeast(a, b) {
		return a
	}
	return b
}
