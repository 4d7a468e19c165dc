package service_test

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/service"
)

var odd = []string{"/opt/tool room/toolroom", "serve", "--home", `/h/100% "$x" \ é<&>`}

func TestSystemdAcceptsTheUnit(t *testing.T) {
	t.Parallel()
	for _, system := range []bool{true, false} {
		program := filepath.Join(t.TempDir(), "tool room") // which systemd looks for
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := service.Service{Kind: service.Systemd, System: system, Command: append([]string{program}, odd[1:]...), Folder: t.TempDir(), User: "root", SearchPath: `/opt/100% "$x"\é:/bin`}
		text, err := s.Text()
		if err != nil || !service.IsOurs([]byte(text)) {
			t.Fatal(err, text)
		}
		if !strings.Contains(text, ` --home "/h/100%% \"$$x\" \\ é<&>"`+"\n") {
			t.Errorf("the command line is not quoted:\n%s", text)
		}
		if !strings.Contains(text, `Environment="PATH=/opt/100%% \"$x\"\\é:/bin"`+"\n") {
			t.Errorf("the search path is not quoted:\n%s", text)
		}
		verify, err := exec.LookPath("systemd-analyze")
		if err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("no systemd-analyze here")
		}
		file := filepath.Join(t.TempDir(), service.Name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(verify, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), file) {
			t.Errorf("systemd-analyze: %v\n%s\n%s", err, out, text)
		}
	}
}

func TestThePropertyListHasTheCommandWordByWord(t *testing.T) {
	t.Parallel()
	s := service.Service{Kind: service.Launchd, Command: odd, Folder: "/f", Log: "/l", SearchPath: "/opt/<x>:/bin"}
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "<key>PATH</key><string>/opt/&lt;x&gt;:/bin</string>") {
		t.Errorf("the search path is not there:\n%s", text)
	}
	var words []string
	decoder := xml.NewDecoder(strings.NewReader(text))
	within := false
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			within = within || e.Name.Local == "array"
		case xml.EndElement:
			within = within && e.Name.Local != "array"
		case xml.CharData:
			if word := string(e); within && strings.TrimSpace(word) != "" {
				words = append(words, word)
			}
		}
	}
	if diff := cmp.Diff(odd, words); diff != "" {
		t.Errorf("-want +got\n%s\n%s", diff, text)
	}
}

// The keys and their types are those of launchd.plist(5), which refuses none that it does not
// know: a misspelled one would be without effect.
func TestThePropertyListHasDocumentedKeysOnly(t *testing.T) {
	t.Parallel()
	types := map[string]string{
		"Label": "string", "ProgramArguments": "array", "WorkingDirectory": "string", "EnvironmentVariables": "dict", "UserName": "string",
		"RunAtLoad": "true", "KeepAlive": "dict", "Umask": "integer", "ExitTimeOut": "integer", "StandardErrorPath": "string", "StandardOutPath": "string",
	}
	inner := map[string]string{"EnvironmentVariables.PATH": "string", "KeepAlive.SuccessfulExit": "false"}
	s := service.Service{Kind: service.Launchd, Command: odd, Folder: "/f", Log: "/l", SearchPath: "/bin", System: true, User: "toolroom"}
	text, err := s.Text()
	if err != nil {
		t.Fatal(err)
	}
	type element struct {
		XMLName xml.Name
		Text    string    `xml:",chardata"`
		Inside  []element `xml:",any"`
	}
	var list element
	if err := xml.Unmarshal([]byte(text), &list); err != nil || list.XMLName.Local != "plist" || len(list.Inside) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	found := map[string]string{}
	var walk func(prefix string, dict element)
	walk = func(prefix string, dict element) {
		if len(dict.Inside)%2 != 0 {
			t.Fatalf("%sa key without a value: %s", prefix, text)
		}
		for i := 0; i < len(dict.Inside); i += 2 {
			key, value := dict.Inside[i], dict.Inside[i+1]
			if key.XMLName.Local != "key" {
				t.Errorf("%s%s is no key", prefix, key.XMLName.Local)
			}
			found[prefix+key.Text] = value.XMLName.Local
			if value.XMLName.Local == "dict" {
				walk(prefix+key.Text+".", value)
			}
		}
	}
	walk("", list.Inside[0])
	maps.Copy(types, inner)
	if diff := cmp.Diff(types, found); diff != "" {
		t.Errorf("-want +got\n%s\n%s", diff, text)
	}
}

func TestALineEndInAPathIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := (service.Service{Command: []string{"a\nExecStartPre=b"}}).Text(); err == nil {
		t.Error("no error")
	}
}

func TestTheManagerIsToldInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		m    service.Manager
		want []string
	}{
		"a user of systemd": {service.Manager{Kind: service.Systemd}, []string{
			"systemctl --user daemon-reload", "systemctl --user enable toolroom.service", "systemctl --user restart toolroom.service",
			"systemctl --user --no-pager status toolroom.service", "journalctl --no-pager -q -n 5 --user-unit toolroom.service -f",
			"systemctl --user disable --now toolroom.service", "systemctl --user daemon-reload", "systemctl --user is-active --quiet toolroom.service", "systemctl --user is-failed --quiet toolroom.service",
		}},
		"the machine with systemd": {service.Manager{Kind: service.Systemd, System: true}, []string{
			"systemctl daemon-reload", "systemctl enable toolroom.service", "systemctl restart toolroom.service",
			"systemctl --no-pager status toolroom.service", "journalctl --no-pager -n 5 -u toolroom.service -f",
			"systemctl disable --now toolroom.service", "systemctl daemon-reload", "systemctl is-active --quiet toolroom.service", "systemctl is-failed --quiet toolroom.service",
		}},
		"a user of launchd": {service.Manager{Kind: service.Launchd, UID: 501}, []string{
			"launchctl bootout gui/501/io.github.toolroom", "launchctl bootstrap gui/501 /f", "launchctl print gui/501/io.github.toolroom",
			"tail -n 5 -F /log", "launchctl bootout gui/501/io.github.toolroom",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			c.m.Run = func(_ context.Context, name string, args ...string) error {
				got = append(got, name+" "+strings.Join(args, " "))
				return nil
			}
			ctx := t.Context()
			if err := errors.Join(c.m.Start(ctx, "/f"), c.m.Status(ctx), c.m.Logs(ctx, "/log", 5, true), c.m.Stop(ctx), c.m.Removed(ctx)); err != nil {
				t.Fatal(err)
			}
			systemd := c.m.Kind == service.Systemd
			if active, failed := c.m.Active(ctx), c.m.Failed(ctx); active != systemd || failed != systemd {
				t.Errorf("active: %v, failed: %v", active, failed)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestAMachineWithoutSystemdSaysSo(t *testing.T) {
	t.Parallel()
	m := service.Manager{Kind: service.Systemd, Booted: filepath.Join(t.TempDir(), "none")}
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "systemd does not run") {
		t.Errorf("error %v", err)
	}
	m.Booted = t.TempDir()
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
