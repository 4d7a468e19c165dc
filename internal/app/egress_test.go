package app_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// fetch is a program that asks its proxy for an address, and says what came.
const fetch = `
import os
from http.client import HTTPConnection
c = HTTPConnection(os.environ["HTTP_PROXY"].removeprefix("http://"))
c.request("GET", address)
r = c.getresponse()
"%d %s" % (r.status, r.read().decode())
`

func TestAProgramReachesTheHostsThatItNamesWhereConfigAndPolicyLetIt(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "welcome") }))
	t.Cleanup(s.Close)
	address := s.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	for _, tt := range []struct {
		name, config, skill string
		egress              []string
		value               string // that the program ends with
		code                toolroom.Code
	}{
		{"allowed", `code: {egress: {allow: ["127.0.0.1"]}}`, "", []string{address}, "200 welcome", ""},
		{"allowed for all", `egress: {allow: [loopback]}`, "", []string{address}, "200 welcome", ""},
		{"loopback is not allowed", `{}`, "", []string{address}, "403 toolroom: ", ""},
		{"denied to programs alone", `{egress: {allow: [loopback]}, code: {egress: {deny: [127.0.0.1]}}}`, "", []string{address}, "403 toolroom: ", ""},
		{"it named another", `egress: {allow: [loopback]}`, "", []string{"127.0.0.1:1"}, "403 toolroom: ", ""},
		{"it named none", `egress: {allow: [loopback]}`, "", nil, "", toolroom.CodeExecutionFailed},
		{"no host", `{}`, "", []string{"http://example.com/"}, "", toolroom.CodeInvalidArguments},
		{"a block", `{}`, "", []string{"10.0.0.0/8"}, "", toolroom.CodeInvalidArguments},
		{"the skill has the host", `{egress: {allow: [loopback]}, tools: {skills: {web: {permissions: {tools: ["*"], net: [{host: 127.0.0.1, ports: [` + port + `]}]}}}}}`, "web", []string{address}, "200 welcome", ""},
		{"the skill has another port", `{egress: {allow: [loopback]}, tools: {skills: {web: {permissions: {tools: ["*"], net: [{host: 127.0.0.1, ports: [1]}]}}}}}`, "web", []string{address}, "", toolroom.CodeDenied},
		{"the skill has no host", `{egress: {allow: [loopback]}, tools: {skills: {web: {permissions: {tools: ["*"]}}}}}`, "web", []string{address}, "", toolroom.CodeDenied},
		{"a rule about hosts", `{egress: {allow: [loopback]}, tools: {deny: ["effect:host:127.0.0.1"]}}`, "", []string{address}, "", toolroom.CodeDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := withProcess(t, tt.config)
			inputs, err := json.Marshal(map[string]string{"address": "http://" + address + "/"})
			if err != nil {
				t.Fatal(err)
			}
			result, err := r.Execute(t.Context(), toolroom.Call{Identity: toolroom.Identity{Subject: "ann", Skill: tt.skill}}, toolroom.Program{
				Language: "python", Code: fetch, Inputs: inputs, Egress: tt.egress, Runtime: "process",
			})
			if err != nil {
				t.Fatal(err)
			}
			if tt.code != "" {
				if result.Error == nil || result.Error.Code != tt.code {
					t.Errorf("it ended with %+v, value %s", result.Error, result.Value)
				}
				return
			}
			var value string
			if err := json.Unmarshal(result.Value, &value); err != nil || result.Error != nil || !strings.HasPrefix(value, tt.value) {
				t.Fatalf("it ended with %+v, value %s, want %q", result.Error, result.Value, tt.value)
			}
			if result.Execution.Held["egress"] == "" {
				t.Errorf("the result does not say how the list was held: %v", result.Execution.Held)
			}
		})
	}
}

// withProcess is a room with a config, in which the process sandbox works.
func withProcess(t *testing.T, text string, environ ...string) *app.App {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, app.Options{Home: t.TempDir(), Helper: self, ConfigFile: file, Environ: append(environ, os.Environ()...)})
	d, err := r.Driver("process")
	if err != nil {
		t.Fatal(err)
	}
	if p := d.Probe(t.Context()); p.State != sandbox.Available && os.Getenv("CI") != "true" {
		t.Skip(p.Reason)
	}
	return r
}
