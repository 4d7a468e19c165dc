package cli

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAValueThatLooksLikeAFlagStaysWithItsFlag(t *testing.T) {
	t.Parallel()
	h := parseHelp("Usage: program\n  -n, --name <text>   a name\n  -o <file>   where to write\n")
	for _, c := range []struct {
		arguments string
		want      []string
	}{
		{`{"name":"plain"}`, []string{"--name", "plain"}},
		{`{"name":"-x"}`, []string{"--name=-x"}},
		{`{"name":"--output=/etc/passwd"}`, []string{"--name=--output=/etc/passwd"}},
		{`{"name":"-"}`, []string{"--name", "-"}},
		{`{"o":"-x"}`, []string{"-o-x"}},
		{`{"name":["a","-b"]}`, []string{"--name", "a", "--name=-b"}},
	} {
		a, err := h.parseArguments(json.RawMessage(c.arguments))
		if err != nil {
			t.Errorf("%s: %v", c.arguments, err)
		}
		if diff := cmp.Diff(c.want, a.commandWords()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.arguments, diff)
		}
	}
}

func TestADescriptionAfterOneSpaceIsNoValue(t *testing.T) {
	t.Parallel()
	// The layout of curl: a long name leaves only one space.
	h := parseHelp(` -J, --remote-header-name Use the header-provided filename, or none
     --http2-prior-knowledge Use HTTP 2 without HTTP/1.1 Upgrade
     --abstract-unix-socket <path> Connect via abstract Unix domain socket
     --ciphers <list of ciphers> SSL ciphers to use
 -x, --proxy [protocol://]host[:port] Use this proxy
     --form FILE Read a form
`)
	want := map[string]valueKind{
		"remote-header-name": noValue, "http2-prior-knowledge": noValue,
		"abstract-unix-socket": textValue, "ciphers": textValue, "proxy": textValue, "form": textValue,
	}
	got := map[string]valueKind{}
	for _, f := range h.flags {
		got[f.long] = f.value
		if f.text == "" {
			t.Errorf("--%s has no description", f.long)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCurlTakesItsOwnFlags(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		missing(t, "curl")
	}
	text, err := exec.Command("curl", "--help", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	h := parseHelp(string(text))
	for name, value := range map[string]string{"remote_header_name": "true", "proxy": `"http://127.0.0.1:1"`, "cookie": `"a=b"`} {
		a, err := h.parseArguments(json.RawMessage(`{"` + name + `":` + value + `}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// Curl refuses flags that it does not know before it does anything.
		if out, err := exec.Command("curl", append(a.commandWords(), "--version")...).CombinedOutput(); err != nil {
			t.Errorf("curl %q: %v: %s", a.commandWords(), err, out)
		}
	}
}
