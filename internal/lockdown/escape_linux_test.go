//go:build amd64 || arm64

package lockdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
)

// outside prepares targets on the host machine that a guest must not reach.
func outside(t *testing.T) string {
	t.Helper()
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	folder := t.TempDir()
	for dir := folder; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file, socket := filepath.Join(folder, "secret"), filepath.Join(folder, "socket")
	if err := os.WriteFile(file, []byte(escape.Word), 0o644); err != nil {
		t.Fatal(err)
	}
	abstract := fmt.Sprintf("@lockdown-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(folder)))
	tcp := listen("tcp", "127.0.0.1:0").Addr().String()
	listen("unix", abstract)
	listen("unix", socket)
	packets, err := net.ListenPacket("unixgram", socket+datagrams)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	if err := errors.Join(os.Chmod(socket, 0o777), os.Chmod(socket+datagrams, 0o777)); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(escape.Outside{TCP: tcp, Abstract: abstract, Socket: socket, Secret: file, SetUID: suid})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNothingGetsOut(t *testing.T) {
	t.Parallel()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			addresses := outside(t)
			o := do(t, s, task{
				Guest: []string{"attack", addresses},
				Binds: []Bind{{Source: suid}},
			})
			if o.Error != "" || o.Exit.Code != 0 {
				t.Fatalf("%+v", o)
			}
			var results map[string]string
			if err := json.Unmarshal([]byte(o.Stdout), &results); err != nil {
				t.Fatalf("%v: %q", err, o.Stdout)
			}
			t.Logf("%s: %d attacks", o.Layers, len(results))
			for _, name := range slices.Sorted(maps.Keys(results)) {
				t.Run(strings.ReplaceAll(name, "/", "|"), func(t *testing.T) {
					if results[name] == escape.Succeeded {
						t.Errorf("the attack succeeded")
					}
					for _, malformed := range []string{"bad address", "bad file descriptor"} {
						if strings.Contains(results[name], malformed) {
							t.Errorf("the attack is malformed: %s", results[name])
						}
					}
				})
			}
		})
	}
}

// With a network the guest can reach what the host machine can reach on the
// network, but nothing else.
func TestANetworkGrantsNothingElse(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{rootServer, nobodyServer} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := do(t, s, task{Guest: []string{"attack", outside(t)}, Binds: []Bind{{Source: suid}}, Network: true, Filter: Hardened})
			var results map[string]string
			if err := json.Unmarshal([]byte(o.Stdout), &results); err != nil {
				t.Fatalf("%v: %+v", err, o)
			}
			if strings.Contains(o.Layers, string(Offline)) {
				t.Errorf("the guest is reported to be offline: %s", o.Layers)
			}
			if results["connect to the host machine"] != escape.Succeeded {
				t.Errorf("there is no network: %s", results["connect to the host machine"])
			}
			for _, name := range []string{
				"connect to an abstract socket", "connect to a socket of the host machine", "make a raw socket", "make a packet socket",
				"make a netlink socket", "make a VM socket", "connect to Docker", "connect to the system bus", "read a secret of the host machine",
			} {
				if err, ok := results[name]; !ok || err == escape.Succeeded {
					t.Errorf("%s: %s", name, err)
				}
			}
		})
	}
}
