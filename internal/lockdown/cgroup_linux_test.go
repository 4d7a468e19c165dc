//go:build amd64 || arm64

package lockdown

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheOwnCgroupIsFoundInMounts(t *testing.T) {
	t.Parallel()
	const mounts = `24 1 0:21 / /proc rw - proc proc rw
30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
broken line
`
	for _, tt := range []struct {
		controller string
		version    int
		group      string
		want       string
	}{
		{"cpu", 1, "/", "/sys/fs/cgroup/cpu,cpuacct"},
		{"cpuacct", 1, "/a/b", "/sys/fs/cgroup/cpu,cpuacct/a/b"},
		{"memory", 1, "/docker/abc/x", "/sys/fs/cgroup/memory/x"},
		{"memory", 1, "/elsewhere", "/sys/fs/cgroup/memory"},
		{"memory", 2, "/user.slice", "/sys/fs/cgroup/unified/user.slice"},
		{"pids", 1, "/", ""},
	} {
		if got, _ := cgroupMount([]byte(mounts), tt.controller, tt.version, tt.group); got != tt.want {
			t.Errorf("%s, version %d, %s: got %q, want %q", tt.controller, tt.version, tt.group, got, tt.want)
		}
	}
}

// cgroupTree makes the files that a kernel would show in a cgroup.
func cgroupTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAFolderForGroupsOfVersion2IsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		own   string
		want  string
	}{
		{"below the own group", map[string]string{"own/cgroup.subtree_control": "cpu memory\n"}, "own", "own"},
		{"beside the own group, as in a delegated slice", map[string]string{"own/cgroup.controllers": "", "cgroup.subtree_control": "memory pids"}, "own", "."},
		{"nowhere", map[string]string{"own/cgroup.controllers": "cpu"}, "own", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			root := cgroupTree(t, tt.files)
			got, err := usable("memory", 2, filepath.Join(root, tt.own))
			want := ""
			if tt.want != "" {
				want = filepath.Join(root, tt.want)
			}
			if got != want || (err == nil) != (want != "") {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

func TestMissingControllersAreEnabled(t *testing.T) {
	t.Parallel()
	root := cgroupTree(t, map[string]string{"cgroup.controllers": "cpu memory", "cgroup.subtree_control": ""})
	if got, err := usable("cpuacct", 2, root); got != root || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); err != nil || string(text) != "+cpu" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestLimitsAreWrittenInBothVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]map[string]string{
		1: {
			"memory.limit_in_bytes": "1048576", "memory.memsw.limit_in_bytes": "1048576",
			"pids.max": "26", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000",
		},
		2: {
			"memory.max": "1048576", "memory.swap.max": "0", "memory.oom.group": "1",
			"pids.max": "26", "cpu.max": "150000 100000",
		},
	} {
		root := t.TempDir()
		c := cgroups{}
		for _, controller := range controllers {
			c[controller] = cgroupFolder{version, root}
		}
		g, err := c.create("run", Limits{Memory: 1 << 20, PIDs: 10, CPUs: 1.5})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		g.each(func(dir string) {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				text, err := os.ReadFile(filepath.Join(dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got[e.Name()] = string(text)
			}
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("version %d: -want +got\n%s", version, diff)
		}
	}
}

func TestUsageIsReadInBothVersions(t *testing.T) {
	t.Parallel()
	root := cgroupTree(t, map[string]string{
		"1/cpuacct.usage": "5000000\n", "1/memory.max_usage_in_bytes": "4096\n", "1/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"2/cpu.stat": "usage_usec 5000\nuser_usec 1\n", "2/memory.peak": "4096\n", "2/memory.events": "low 0\noom 1\noom_kill 2\n",
	})
	for version, folder := range map[int]string{1: "1", 2: "2"} {
		g := &group{folders: cgroups{}}
		for _, controller := range controllers {
			g.folders[controller] = cgroupFolder{version, filepath.Join(root, folder)}
		}
		if got, want := g.usage(), (Usage{CPU: 5 * time.Millisecond, Memory: 4096}); got != want || !g.outOfMemory() {
			t.Errorf("version %d: %+v, out of memory %t", version, got, g.outOfMemory())
		}
	}
}

func TestOnlyOurNamesHaveAnOwner(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		ownerPrefix + "12-345-6": "12-345", ownerPrefix + "12-345": "", ownerPrefix + "a-b-c": "", ownerPrefix: "", "other-1-2-3": "", ownerPrefix + "1--2": "",
	} {
		if got, ok := ownerOf(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
	if owner, ok := ownerOf(ownName()); !ok || !strings.HasPrefix(ownName(), ownerPrefix+owner+"-") {
		t.Errorf("%q, %t", owner, ok)
	}
}
