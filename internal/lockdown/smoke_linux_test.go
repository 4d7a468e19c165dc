package lockdown

import (
	"os"
	"testing"
)

func TestSmoke(t *testing.T) {
	var h Host
	for _, f := range h.Probe(t.Context()) {
		t.Logf("%+v", f)
	}
	p, err := h.Start(t.Context(), Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "id; ls -la / /dev /proc /work /etc; cat /proc/self/status; cat /proc/mounts; echo hi > /work/x; hostname; ulimit -a; ls -l /proc/self/fd; python3 -c 'print(1)'"}, Env: []string{"PATH=/usr/bin:/bin"}, Root: System(), Stdout: os.Stdout, Stderr: os.Stderr,
		Limits: Limits{Memory: 100 << 20, PIDs: 20, CPUs: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(p.Rungs(), p.Held())
	t.Log(p.Wait())
	t.Log(p.Usage())
}
