//go:build integration && linux

package stores

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gokeyring "github.com/zalando/go-keyring"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

// busConfig configures a bus that starts no services. With service files, a request that
// comes before our keyring has started would start a locked one.
const busConfig = `<busconfig>
  <type>session</type>
  <listen>unix:dir=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>`

// startKeyring starts a message bus and a Secret Service on it, which this process then uses.
func startKeyring(t *testing.T) {
	t.Helper()
	for _, program := range []string{"dbus-daemon", "gnome-keyring-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program+" is not there; apt-get install dbus gnome-keyring has it")
		}
	}
	home := t.TempDir()
	conf := filepath.Join(home, "bus.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, busConfig, home), 0o600); err != nil {
		t.Fatal(err)
	}
	bus := exec.Command("dbus-daemon", "--config-file="+conf, "--nofork", "--print-address=1")
	out, err := bus.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, bus)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", strings.TrimSpace(address))
	t.Setenv("HOME", home)
	t.Setenv("XDG_RUNTIME_DIR", home)
	daemon := exec.Command("gnome-keyring-daemon", "--unlock", "--components=secrets", "--foreground")
	daemon.Stdin = strings.NewReader("password of the test")
	start(t, daemon)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithDeadline(t.Context(), end)
		err := backend.ProbeKeyring(ctx)
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func start(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

func TestSecretsAndTheKeyOfTheFileComeFromARealKeyring(t *testing.T) {
	startKeyring(t)
	const key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	for user, value := range map[string]string{"gh/token": "value-1", "gh/token@ann": "value-of-ann", "file-key": key} {
		if err := gokeyring.Set("toolroom", user, value); err != nil {
			t.Fatal(err)
		}
	}
	s := &backend.Keyring{}
	gh := secret.Ref{Scope: "gh", Name: "token"}
	for _, c := range []struct {
		ref  secret.Ref
		want string
		code toolroom.Code
	}{{gh, "value-1", ""}, {gh.Of("ann"), "value-of-ann", ""}, {gh.Of("bob"), "", toolroom.CodeNotFound}} {
		if got, err := s.Get(t.Context(), c.ref); got != c.want || toolroom.CodeOf(err) != c.code {
			t.Errorf("%+v: got %q, %v", c.ref, got, err)
		}
	}

	home := t.TempDir()
	file := filepath.Join(home, "toolroom.yaml")
	if err := os.WriteFile(file, []byte("secrets: {key: {keyring: file-key}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Parts().Secrets.Set(t.Context(), gh, "value-in-the-file"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(home, "secrets.key")); err == nil {
		t.Error("a key lies beside the file")
	}
}
