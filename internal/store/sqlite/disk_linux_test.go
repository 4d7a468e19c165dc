package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// diskFolder is the environment variable with the folder in which the test, in a process
// with a mount namespace, may mount a disk.
const diskFolder = "TOOLROOM_TEST_DISK"

func TestADiskThatFillsUpDuringCallsLosesNoRecord(t *testing.T) {
	folder := os.Getenv(diskFolder)
	if folder == "" {
		t.Parallel()
		runMounted(t)
		return
	}
	disk := filepath.Join(folder, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=6m"); err != nil {
		t.Fatal(err)
	}
	store, err := Open(t.Context(), filepath.Join(disk, "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	recorder := receipt.NewRecorder(store, receipt.RecorderOptions{Reserve: 256 << 10, Retry: time.Millisecond, MaxRetry: 10 * time.Millisecond})

	var mu sync.Mutex
	ran := map[string]bool{}
	handler := func(_ context.Context, req *source.Request) (*source.Output, error) {
		mu.Lock()
		defer mu.Unlock()
		ran[req.Call] = true
		return &source.Output{}, nil
	}
	runner := run.New(run.Options{
		Catalog: catalog.New(catalog.Options{}), Receipts: recorder, Owner: "me",
		MustRecord: func(t *toolroom.Tool) bool { return t.ID.Namespace == "pay" },
	})
	funcs := &gofunc.Source{}
	for _, id := range []string{"pay:out", "note:read"} {
		tool := toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceGo}
		funcs.Put(gofunc.Func{Tool: tool, Handler: handler})
		if err := runner.Catalog.Register("go", funcs, tool); err != nil {
			t.Fatal(err)
		}
	}
	call := func(tool string) *toolroom.Result {
		return runner.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: json.RawMessage(`{"x":"` + strings.Repeat("x", 10_000) + `"}`)})
	}

	// Calls run concurrently until each has been refused often. Meanwhile another
	// program fills the rest of the disk.
	var callers sync.WaitGroup
	for _, tool := range []string{"pay:out", "note:read", "pay:out", "note:read"} {
		callers.Go(func() {
			for i, refused := 0, 0; refused < 50; i++ {
				r := call(tool)
				switch {
				case r.OK():
				case r.Error.Phase != toolroom.PhaseReceipt || r.Effects != toolroom.EffectsNone || !r.Error.Retryable:
					t.Errorf("%s: %+v", tool, r.Error)
					return
				default:
					refused++
				}
				if i == 20 {
					fill(filepath.Join(disk, "another program's, "+tool))
				}
			}
		})
	}
	callers.Wait()
	mu.Lock()
	if len(ran) == 0 {
		t.Error("no call ran")
	}
	mu.Unlock()

	// When there is space again, it continues by itself.
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); recorder.Ready() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not go on: %v", recorder.Ready())
		}
	}
	for _, tool := range []string{"pay:out", "note:read"} {
		if r := call(tool); !r.OK() {
			t.Errorf("%s with room again: %v", tool, r.Error)
		}
	}
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept := map[string]toolroom.Status{}
	if _, err := store.VerifyReceipts(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for after := toolroom.ReceiptsFromStart; ; {
		page, err := store.Receipts(t.Context(), toolroom.ReceiptQuery{AfterSeq: after, Limit: receipt.MaxLimit})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			kept[r.ID], after = r.Status, r.Seq
		}
	}
	for id := range ran {
		if kept[id] != toolroom.StatusOK {
			t.Errorf("call %s ran, and its receipt says %q", id, kept[id])
		}
	}
	for id, status := range kept {
		if status == toolroom.StatusOK && !ran[id] {
			t.Errorf("call %s did not run, and its receipt says that it did", id)
		}
	}
}

// fill fills the disk.
func fill(path string) {
	f, err := os.Create(path)
	if err != nil {
		return // it is full
	}
	defer f.Close()
	block := make([]byte, 4096)
	for range 64 << 20 / len(block) {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

// runMounted runs this test again in namespaces in which it may mount, and which end
// with the process.
func runMounted(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), diskFolder+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && os.Getenv("CI") == "" {
		t.Skipf("no namespaces can be made here: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
