// Package trial remembers for some minutes, from one process to the next, that a
// trial went well which takes long: a sandbox was built that runs nothing.
package trial

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

// Lasts is how long a trial is remembered.
const Lasts = 5 * time.Minute

// Record is the file of one trial. The zero value remembers nothing.
type Record struct {
	// Path is the file, in a folder of this user alone: who can write it can make
	// believe that the trial went well, and a start then says what is wrong.
	Path string
	// Of is what was tried; binaries are files of which size, mode and time count.
	Of       []string
	Binaries []string
}

// kept is what the file has.
type kept struct {
	Key    string    `json:"key"`
	At     time.Time `json:"at"`
	Detail string    `json:"detail"`
}

// Recall gives the detail of the last trial, where it was of the same on a
// machine, and as a user, that nothing has changed for since.
func (r Record) Recall(now time.Time) (detail string, ok bool) {
	if r.Path == "" {
		return "", false
	}
	text, err := os.ReadFile(r.Path)
	if err != nil {
		return "", false
	}
	var k kept
	if json.Unmarshal(text, &k) != nil || k.Key != r.key() {
		return "", false
	}
	age := now.Sub(k.At)
	return k.Detail, age >= 0 && age < Lasts
}

// Keep remembers a trial that went well. Where the file cannot be written, the
// next process tries again.
func (r Record) Keep(now time.Time, detail string) {
	if r.Path == "" {
		return
	}
	text, err := json.Marshal(kept{r.key(), now, detail})
	if err == nil && os.MkdirAll(filepath.Dir(r.Path), 0o700) == nil {
		_ = atomicfile.Write(r.Path, text, 0o600)
	}
}

// Forget has the next trial really made.
func (r Record) Forget() {
	if r.Path != "" {
		_ = os.Remove(r.Path)
	}
}

// key is all that a trial depends on, as far as it can be read: the boot, the
// user and what it may, the namespaces that it is in, the switches of the system
// for namespaces, and the binaries.
func (r Record) key() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %d %d %s/%s\n", r.Of, os.Geteuid(), os.Getegid(), runtime.GOOS, runtime.GOARCH)
	for _, path := range append([]string{"/proc/self/exe"}, r.Binaries...) {
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
