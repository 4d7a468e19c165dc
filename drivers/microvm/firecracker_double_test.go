//go:build linux

package microvm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/guest/vm"
)

// double is a test double of Firecracker, according to its documentation: the API with
// its order of calls and its faults, the handshake of the virtual socket, and snapshots
// that break connections. Instead of a VM it runs the guest of the initial file system as
// a process.
type double struct {
	mu      sync.Mutex
	config  map[string]json.RawMessage
	state   string // "Not started", "Running", "Paused"
	conns   []net.Conn
	resumed chan struct{} // closed while the VM runs
}

// doubleMain is the main function of the program firecracker.
func doubleMain(args []string) int {
	if slices.Contains(args, "--version") {
		fmt.Println("Firecracker v1.12.0")
		return 0
	}
	listener, err := net.Listen("unix", args[slices.Index(args, "--api-sock")+1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	d := &double{config: map[string]json.RawMessage{}, state: "Not started", resumed: make(chan struct{})}
	fmt.Fprintln(os.Stderr, http.Serve(listener, d))
	return 1
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Method == http.MethodGet && r.URL.Path == "/version" {
		fmt.Fprintln(w, `{"firecracker_version": "1.12.0"}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = d.act(r.Method+" "+r.URL.Path, body)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"fault_message": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (d *double) act(what string, body []byte) error {
	read := func(v any) error {
		in := json.NewDecoder(strings.NewReader(string(body)))
		in.DisallowUnknownFields()
		if err := in.Decode(v); err != nil {
			return fmt.Errorf("An error occurred when deserializing the json body of a request: %w", err)
		}
		return nil
	}
	configurations := map[string]any{
		"PUT /machine-config": &machineConfig{}, "PUT /boot-source": &bootSource{}, "PUT /drives/disk": &drive{}, "PUT /vsock": &vsock{},
	}
	if v := configurations[what]; v != nil {
		if d.state != "Not started" {
			return fmt.Errorf("The requested operation is not supported after starting the microVM.")
		}
		if b, ok := v.(*bootSource); ok && read(v) == nil {
			if _, err := os.Stat(b.Kernel); err != nil {
				return fmt.Errorf("The kernel file cannot be opened: %w", err)
			}
		}
		d.config[strings.TrimPrefix(what, "PUT ")] = body
		return read(v)
	}
	switch what {
	case "PUT /actions":
		var a action
		if err := read(&a); err != nil {
			return err
		}
		if a.Type != "InstanceStart" || d.config["/boot-source"] == nil || d.state != "Not started" {
			return fmt.Errorf("Cannot start microvm without kernel configuration.")
		}
		return d.run()
	case "PATCH /vm":
		var s vmState
		if err := read(&s); err != nil {
			return err
		}
		if d.state != "Running" || s.State != "Paused" {
			return fmt.Errorf("The requested operation is not supported in this state.")
		}
		d.state, d.resumed = "Paused", make(chan struct{})
		return nil
	case "PUT /snapshot/create":
		var s snapshotCreate
		if err := read(&s); err != nil {
			return err
		}
		if d.state != "Paused" || s.Type != "Full" {
			return fmt.Errorf("save/restore: the microVM is not paused")
		}
		for _, c := range d.conns {
			c.Close()
		}
		data, _ := json.Marshal(d.config)
		return os.WriteFile(s.State, data, 0o600)
	case "PUT /snapshot/load":
		var s snapshotLoad
		if err := read(&s); err != nil {
			return err
		}
		if d.state != "Not started" || len(d.config) > 0 || s.Memory.Type != "File" || !s.Resume {
			return fmt.Errorf("Loading a microVM snapshot not allowed after configuring boot-specific resources.")
		}
		data, err := os.ReadFile(s.State)
		if err == nil {
			err = json.Unmarshal(data, &d.config)
		}
		if err != nil {
			return err
		}
		return d.run()
	}
	return fmt.Errorf("Invalid request method and/or path: %s.", what)
}

// run starts the VM.
func (d *double) run() error {
	var v vsock
	if err := json.Unmarshal(d.config["/vsock"], &v); err != nil {
		return err
	}
	listener, err := net.Listen("unix", v.Path)
	if err != nil {
		return err
	}
	d.state = "Running"
	close(d.resumed)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			d.conns = append(d.conns, conn)
			d.mu.Unlock()
			go d.connect(conn.(*net.UnixConn))
		}
	}()
	return nil
}

// connect serves a connection to a port of the VM.
func (d *double) connect(conn *net.UnixConn) {
	defer conn.Close()
	line, err := readLine(conn)
	var boot bootSource
	_ = json.Unmarshal(d.config["/boot-source"], &boot)
	port := strings.TrimPrefix(line, "CONNECT ")
	if err != nil || !strings.Contains(boot.Args, " "+vm.VsockOption+port+" ") {
		return
	}
	fmt.Fprintf(conn, "OK 1073741824\n%s", vm.Ready)
	in := bufio.NewReader(conn)
	text, err := in.ReadBytes('\n')
	if err != nil { // a snapshot breaks the connection
		return
	}
	<-d.resumed
	var s vm.Settings
	if err := json.Unmarshal(text, &s); err != nil {
		return
	}
	report, err := serveGuest(conn, in, boot.Initrd, s)
	if err != nil {
		report.Error = err.Error()
	}
	line2, _ := json.Marshal(report)
	fmt.Printf("\r\n%s%s\r\n", vm.ReportMark, line2)
	os.Exit(0)
}

// serveGuest runs the guest in the initial file system.
func serveGuest(conn *net.UnixConn, in io.Reader, initrd string, s vm.Settings) (report vm.Report, err error) {
	archives, err := os.ReadFile(initrd)
	if err != nil {
		return report, err
	}
	init, ok := unpackFile(archives, "init")
	if !ok {
		return report, fmt.Errorf("no init in %s", initrd)
	}
	work, err := filepath.Abs("work")
	if err != nil {
		return report, err
	}
	path := filepath.Join(work, "init")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return report, err
	}
	if err := os.WriteFile(path, init, 0o755); err != nil {
		return report, err
	}
	cmd := exec.CommandContext(context.Background(), path, s.Args...)
	cmd.Env = append(s.Env, guest.WorkEnv+"="+work)
	cmd.Stdout = conn
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return report, err
	}
	go func() { _, _ = io.Copy(stdin, in) }() // until the VM ends
	var stderr strings.Builder
	cmd.Stderr = &stderr
	_ = cmd.Run()
	return vm.Report{Code: cmd.ProcessState.ExitCode(), Stderr: stderr.String()}, nil
}

// unpackFile returns a file in archives of the format "newc".
func unpackFile(archives []byte, want string) ([]byte, bool) {
	const headSize, sizeAt, nameSizeAt = 110, 54, 94
	align := func(n int) int { return (n + 3) / 4 * 4 }
	for len(archives) >= headSize {
		size, err := strconv.ParseUint(string(archives[sizeAt:sizeAt+8]), 16, 32)
		nameSize, nameErr := strconv.ParseUint(string(archives[nameSizeAt:nameSizeAt+8]), 16, 32)
		if err != nil || nameErr != nil {
			return nil, false
		}
		name := string(archives[headSize : headSize+int(nameSize)-1])
		data := align(headSize + int(nameSize))
		if name == want {
			return archives[data : data+int(size)], true
		}
		archives = archives[data+align(int(size)):]
	}
	return nil, false
}
