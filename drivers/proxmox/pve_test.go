//go:build linux

package proxmox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// node simulates a Proxmox VE server: the calls of its documented API that the driver
// makes, on real LXC containers of this machine. It answers like pveproxy: data in an
// envelope, long work in tasks, errors in the status line and by parameter.
type node struct {
	t      *testing.T
	folder string // lxcpath
	self   string // the binary that is init in containers
	bridge string
	net    string // 10.x.y.
	token  string
	server *httptest.Server

	mu         sync.Mutex
	containers map[int]*guest
	tasks      map[string]string // UPID → exit status; empty while the task runs
	// fault, if set, is called before each request and may make it fail.
	fault func(method, path string) (status int, reason string)
	work  sync.WaitGroup
}

// guest is a container of the node.
type guest struct {
	hostname string
	template bool
	locked   bool
}

const (
	nodeName = "pve1"
	template = 9000
)

func newNode(t *testing.T) *node {
	t.Helper()
	if _, err := exec.LookPath("lxc-start"); err != nil || os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("this test needs LXC and root: apt-get install lxc")
		}
		t.Skip("this test needs LXC and root: apt-get install lxc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		t: t, folder: t.TempDir(), self: self, token: "toolroom@pve!runs=0d4c1a0e-5f3b-4d3e-9a52-1f1f3a2b7c6d",
		bridge: fmt.Sprintf("tb%d", os.Getpid()), net: fmt.Sprintf("10.215.%d.", os.Getpid()%250),
		containers: map[int]*guest{template: {hostname: "runner-template", template: true}}, tasks: map[string]string{},
	}
	// A bridge without a fixed hardware address changes it with its ports, and the containers
	// send to the previous one for up to 14 seconds.
	command(t, "ip", "link", "add", n.bridge, "address", hardware(255), "type", "bridge")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", n.bridge).Run() })
	command(t, "ip", "addr", "add", n.net+"1/24", "dev", n.bridge)
	command(t, "ip", "link", "set", n.bridge, "up")
	n.server = httptest.NewServer(n)
	t.Cleanup(func() {
		n.server.Close()
		n.work.Wait()
		for id := range n.containers {
			_ = exec.Command("lxc-stop", "-k", "-P", n.folder, "-n", strconv.Itoa(id)).Run()
		}
	})
	return n
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// ServeHTTP handles API requests like pveproxy.
func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/api2/json")
	switch {
	case !ok:
		fail(w, 404, "no such file '"+r.URL.Path+"'", nil)
		return
	case r.Header.Get("Authorization") != "PVEAPIToken="+n.token:
		fail(w, 401, "invalid token value!", nil)
		return
	}
	n.mu.Lock()
	fault := n.fault
	n.mu.Unlock()
	if fault != nil {
		if status, reason := fault(r.Method, path); status != 0 {
			fail(w, status, reason, nil)
			return
		}
	}
	if err := r.ParseForm(); err != nil {
		fail(w, 400, "Parameter verification failed.", nil)
		return
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/version":
		give(w, map[string]string{"version": "8.4.1", "release": "8.4", "repoid": "2a5fa54a8503f96d"})
	case path == "/cluster/nextid":
		n.mu.Lock()
		defer n.mu.Unlock()
		give(w, strconv.Itoa(n.nextID()))
	case len(parts) >= 2 && parts[0] == "nodes" && parts[1] != nodeName:
		fail(w, 595, "No route to host", nil)
	case len(parts) == 3 && parts[2] == "lxc" && r.Method == http.MethodGet:
		n.list(w)
	case len(parts) == 5 && parts[2] == "tasks" && parts[4] == "status":
		n.task(w, parts[3])
	case len(parts) >= 4 && parts[2] == "lxc":
		n.container(w, r, parts[3], strings.Join(parts[4:], "/"))
	default:
		fail(w, 501, "Method '"+r.Method+" "+path+"' not implemented", nil)
	}
}

func give(w http.ResponseWriter, data any) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}

// fail answers like pveproxy, which puts its own reason into the status line. net/http
// writes the standard reason, so fail also puts it into the body's message.
func fail(w http.ResponseWriter, status int, reason string, errors map[string]string) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(status)
	body := map[string]any{"data": nil, "message": reason + "\n"}
	if errors != nil {
		body["errors"] = errors
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (n *node) nextID() int {
	for id := 100; ; id++ {
		if n.containers[id] == nil {
			return id
		}
	}
}

func (n *node) list(w http.ResponseWriter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := []map[string]any{}
	for id, c := range n.containers {
		all = append(all, map[string]any{"vmid": strconv.Itoa(id), "name": c.hostname, "status": "running", "type": "lxc"})
	}
	give(w, all)
}

func (n *node) task(w http.ResponseWriter, upid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	status, ok := n.tasks[upid]
	switch {
	case !ok:
		fail(w, 400, "Parameter verification failed.", map[string]string{"upid": "unable to parse worker upid"})
	case status == "":
		give(w, map[string]any{"upid": upid, "status": "running"})
	default:
		give(w, map[string]any{"upid": upid, "status": "stopped", "exitstatus": status})
	}
}

// begin runs work as a task, while the container is locked.
func (n *node) begin(w http.ResponseWriter, kind string, id int, c *guest, work func() error) {
	upid := fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%d:toolroom@pve!runs:", nodeName, len(n.tasks)+1, time.Now().UnixMilli()&0xffffffff, time.Now().Unix(), kind, id)
	n.tasks[upid] = ""
	c.locked = true
	n.work.Go(func() {
		err := work()
		n.mu.Lock()
		defer n.mu.Unlock()
		c.locked = false
		if n.tasks[upid] = "OK"; err != nil {
			n.tasks[upid] = err.Error()
		} else if kind == "vzdestroy" {
			delete(n.containers, id)
		}
	})
	give(w, upid)
}

func (n *node) container(w http.ResponseWriter, r *http.Request, number, what string) {
	id, err := strconv.Atoi(number)
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.containers[id]
	switch {
	case err != nil:
		fail(w, 400, "Parameter verification failed.", map[string]string{"vmid": "type check ('integer') failed - got '" + number + "'"})
	case c == nil:
		fail(w, 500, fmt.Sprintf("Configuration file 'nodes/%s/lxc/%d.conf' does not exist", nodeName, id), nil)
	case r.Method == http.MethodGet && what == "config":
		give(w, map[string]any{"hostname": c.hostname, "arch": "amd64", "memory": 1024})
	case r.Method == http.MethodGet && what == "status/current":
		give(w, map[string]any{"vmid": id, "status": n.status(id), "name": c.hostname})
	case r.Method == http.MethodGet && what == "interfaces":
		give(w, n.interfaces(id))
	case c.locked:
		fail(w, 500, "CT is locked (clone)", nil)
	case r.Method == http.MethodPost && what == "clone":
		n.clone(w, r)
	case r.Method == http.MethodPost && what == "status/start":
		n.begin(w, "vzstart", id, c, func() error { return n.start(id, c) })
	case r.Method == http.MethodPost && what == "status/stop":
		n.begin(w, "vzstop", id, c, func() error { return n.lxc("lxc-stop", id, "-k") })
	case r.Method == http.MethodDelete && what == "":
		n.begin(w, "vzdestroy", id, c, func() error {
			if n.status(id) == "running" {
				if r.Form.Get("force") != "1" {
					return fmt.Errorf("CT %d is running - destroy failed", id)
				}
				if err := n.lxc("lxc-stop", id, "-k"); err != nil {
					return err
				}
			}
			return os.RemoveAll(filepath.Join(n.folder, number))
		})
	default:
		fail(w, 501, "Method not implemented", nil)
	}
}

func (n *node) clone(w http.ResponseWriter, r *http.Request) {
	newid, err := strconv.Atoi(r.Form.Get("newid"))
	if err != nil || newid < 100 {
		fail(w, 400, "Parameter verification failed.", map[string]string{"newid": "property is missing and it is not optional"})
		return
	}
	if len(r.Form.Get("hostname")) > 63 {
		fail(w, 400, "Parameter verification failed.", map[string]string{"hostname": "value does not look like a valid DNS name"})
		return
	}
	if n.containers[newid] != nil {
		fail(w, 500, fmt.Sprintf("unable to create CT %d: CT %d already exists on node '%s'", newid, newid, nodeName), nil)
		return
	}
	c := &guest{hostname: r.Form.Get("hostname")}
	n.containers[newid] = c
	n.begin(w, "vzclone", newid, c, func() error { return n.create(newid, c) })
}

// lxc runs an LXC command on a container.
func (n *node) lxc(name string, id int, args ...string) error {
	ctx, done := context.WithTimeout(context.Background(), 30*time.Second)
	defer done()
	out, err := exec.CommandContext(ctx, name, append([]string{"-P", n.folder, "-n", strconv.Itoa(id)}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("command '%s' failed: %w: %s", name, err, out)
	}
	return nil
}

func (n *node) start(id int, c *guest) error {
	if c.template {
		return fmt.Errorf("you can't start a CT if it's a template")
	}
	return n.lxc("lxc-start", id, "-d")
}

func (n *node) status(id int) string {
	out, err := exec.Command("lxc-info", "-P", n.folder, "-n", strconv.Itoa(id), "-sH").Output()
	if err == nil && strings.TrimSpace(string(out)) == "RUNNING" {
		return "running"
	}
	return "stopped"
}

func (n *node) interfaces(id int) []map[string]string {
	all := []map[string]string{{"name": "lo", "hwaddr": "00:00:00:00:00:00", "inet": "127.0.0.1/8"}}
	out, err := exec.Command("lxc-info", "-P", n.folder, "-n", strconv.Itoa(id), "-iH").Output()
	if address := strings.TrimSpace(string(out)); err == nil && address != "" {
		all = append(all, map[string]string{"name": "eth0", "hwaddr": hardware(id), "inet": address + "/24"})
	}
	return all
}

// hardware returns the hardware address of a container. One that gets the id, and so the IP
// address, of one that is gone has its hardware address too: for seconds this machine would
// still send to the old one.
func hardware(id int) string { return fmt.Sprintf("bc:24:11:00:00:%02x", id) }

// create makes a container like the template: this machine's /usr, and the test's binary
// as its init, which serves a runner.
func (n *node) create(id int, c *guest) error {
	folder := filepath.Join(n.folder, strconv.Itoa(id))
	root := filepath.Join(folder, "rootfs")
	for _, dir := range []string{"usr", "etc", "proc", "sys", "dev", "tmp", "run", "var/tmp", "opt"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"opt/toolroom": "", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "opt/secrets": secret + "\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	config := fmt.Sprintf(`
lxc.include = /usr/share/lxc/config/common.conf
lxc.include = /usr/share/lxc/config/nesting.conf
lxc.uts.name = %s
lxc.rootfs.path = dir:%s
lxc.mount.auto = cgroup:rw:force
lxc.mount.entry = /usr usr none ro,bind 0 0
lxc.mount.entry = %s opt/toolroom none ro,bind 0 0
lxc.net.0.type = veth
lxc.net.0.link = %s
lxc.net.0.flags = up
lxc.net.0.hwaddr = %s
lxc.net.0.ipv4.address = %s%d/24
lxc.apparmor.profile = unconfined
lxc.cgroup.memory.limit_in_bytes = 1G
lxc.tty.max = 0
lxc.init.cmd = /opt/toolroom runner 0.0.0.0:7071 /opt/secrets
`, c.hostname, root, n.self, n.bridge, hardware(id), n.net, id-98) // the first id is 100, the first address .2
	return os.WriteFile(filepath.Join(folder, "config"), []byte(config), 0o600)
}

// left returns the remaining containers, their folders and their network interfaces.
func (n *node) left(t *testing.T) []string {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	var left []string
	for id, c := range n.containers {
		if !c.template {
			left = append(left, fmt.Sprintf("container %d (%s)", id, c.hostname))
		}
	}
	entries, err := os.ReadDir(n.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, "folder "+e.Name())
	}
	cables, err := os.ReadDir("/sys/class/net/" + n.bridge + "/brif")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range cables {
		left = append(left, "interface "+e.Name())
	}
	return left
}
