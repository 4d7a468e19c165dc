package shell

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// proxyPort is the port of a command's proxy inside the sandbox.
const proxyPort = 3128

var proxyURL = "http://127.0.0.1:" + strconv.Itoa(proxyPort)

// Servers are the servers of one caller's background processes. Each command in the sandbox has
// its own network and loopback, so others reach these servers only through Servers.
type Servers struct {
	table  *processTable
	caller toolroom.Identity
}

// Servers returns the servers of a caller.
func (s *Shell) Servers(caller toolroom.Identity) *Servers { return &Servers{&s.table, caller} }

// Serves reports whether a process of the caller listens on a port.
func (v *Servers) Serves(port uint16) bool { return v.processAt(port) != nil }

// Dial connects to the process that listens on a port.
func (v *Servers) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	p := v.processAt(port)
	if p == nil {
		return nil, errors.New("no process of this caller listens on port " + strconv.Itoa(int(port)))
	}
	return p.Dial(ctx, port)
}

// processAt returns the sandbox that serves a port. If several do, it is the oldest one.
func (v *Servers) processAt(port uint16) *lockdown.Process {
	for _, p := range v.sandboxes() {
		if slices.Contains(p.Ports(), port) {
			return p
		}
	}
	return nil
}

func (v *Servers) sandboxes() []*lockdown.Process {
	var all []*lockdown.Process
	for _, p := range v.table.usableBy(v.caller) {
		if run := p.started(); run != nil && run.sandbox != nil && p.isRunning() {
			all = append(all, run.sandbox)
		}
	}
	return all
}

// maxPorts bounds the servers that one command reaches.
const maxPorts = 64

// ports returns the ports that are served now.
func (v *Servers) ports() []uint16 {
	var all []uint16
	for _, p := range v.sandboxes() {
		for _, port := range p.Ports() {
			if !slices.Contains(all, port) && port != proxyPort && len(all) < maxPorts {
				all = append(all, port)
			}
		}
	}
	return all
}

// serveSandboxSockets serves the listening sockets inside a command's sandbox: one for each
// port of the caller's background processes, and last the proxy, if the command has one.
func (s *Shell) serveSandboxSockets(p *lockdown.Process, servers *Servers, ports []uint16) {
	slots := make(chan struct{}, maxForwarded)
	for i, l := range p.Listeners() {
		if i == len(ports) {
			s.o.Proxy(l, p.Done())
			return
		}
		go forward(l, slots, func() (net.Conn, error) { return servers.Dial(context.Background(), ports[i]) })
	}
}

// maxForwarded is the maximum number of connections of one command that are forwarded at once;
// others wait. Without it a command could use up Toolroom's open files.
const maxForwarded = 256

// forward accepts connections on l until l is closed, and connects each to one that dial opens.
// Each takes one of slots.
func forward(l net.Listener, slots chan struct{}, dial func() (net.Conn, error)) {
	for {
		near, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptPause) // no file is free, for example
			continue
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer near.Close()
			far, err := dial()
			if err != nil {
				return
			}
			defer far.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				copyStream(far, near)
			}()
			copyStream(near, far)
			<-done
		}()
	}
}

const acceptPause = 100 * time.Millisecond

// copyStream copies one direction of a connection, and then closes that direction.
func copyStream(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite() // the other end may have closed it already
		return
	}
	to.Close()
	from.Close()
}
