package lockdown

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// probeTTL is the time for which a successful probe is cached.
const probeTTL = 5 * time.Minute

// ProbeCache is a file that remembers for some minutes, from one process to the next, that
// an expensive probe succeeded: a sandbox that runs nothing could be built. The zero value
// caches nothing.
type ProbeCache struct {
	// Path is the path of the file, in a folder that only this user may access. Whoever can
	// write the file can fake a success; the next start then fails with the real reason.
	Path string
	// Of names what was probed. Binaries are files whose size, mode and time must not change.
	Of       []string
	Binaries []string
}

// cacheEntry is the content of the file.
type cacheEntry struct {
	Key    string    `json:"key"`
	At     time.Time `json:"at"`
	Detail string    `json:"detail"`
}

// Recall returns the detail of the cached probe. It succeeds if the probe was of the same
// thing, by the same user, and nothing on the machine that it depends on has changed.
func (e ProbeCache) Recall(now time.Time) (detail string, ok bool) {
	if e.Path == "" {
		return "", false
	}
	text, err := os.ReadFile(e.Path)
	if err != nil {
		return "", false
	}
	var k cacheEntry
	if json.Unmarshal(text, &k) != nil || k.Key != e.key() {
		return "", false
	}
	age := now.Sub(k.At)
	return k.Detail, age >= 0 && age < probeTTL
}

// Keep caches a successful probe. If the file cannot be written, the next process probes
// again.
func (e ProbeCache) Keep(now time.Time, detail string) {
	if e.Path == "" {
		return
	}
	text, err := json.Marshal(cacheEntry{e.key(), now, detail})
	if err == nil && os.MkdirAll(filepath.Dir(e.Path), 0o700) == nil {
		_ = atomicfile.Write(e.Path, text, 0o600)
	}
}

// Forget removes the cached probe.
func (e ProbeCache) Forget() {
	if e.Path != "" {
		_ = os.Remove(e.Path)
	}
}

// key returns a hash of everything that the probe depends on, as far as it can be read: the
// boot, the user and its privileges, the namespaces of this process, the sysctls for
// namespaces, and the binaries.
func (e ProbeCache) key() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %d %s/%s\n", e.Of, os.Geteuid(), os.Getegid(), runtime.GOOS, runtime.GOARCH)
	for _, path := range append([]string{"/proc/self/exe"}, e.Binaries...) {
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintf(sum, "%q %d %s %d\n", path, info.Size(), info.Mode(), info.ModTime().UnixNano())
		}
	}
	for _, path := range []string{
		"/proc/sys/kernel/random/boot_id", "/proc/self/attr/current", "/proc/sys/user/max_user_namespaces",
		"/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
	} {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(sum, "%q %q\n", path, text)
	}
	for _, name := range []string{"user", "mnt", "pid", "net", "cgroup"} {
		at, _ := os.Readlink("/proc/self/ns/" + name)
		fmt.Fprintf(sum, "%q\n", at)
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "Seccomp") || strings.HasPrefix(line, "NoNewPrivs") {
			fmt.Fprint(sum, line)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
