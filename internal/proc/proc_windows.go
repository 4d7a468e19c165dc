package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/windows"
)

// ownerForm matches the names that Owner returns.
const ownerForm = "[0-9]+-[0-9]+"

// Owner returns a unique name of this process: its pid and start time. No later process
// can have the same name.
func Owner() string {
	started, _ := startTime(windows.CurrentProcess())
	return fmt.Sprintf("%d-%d", os.Getpid(), started)
}

// Alive reports whether the process named by owner still runs.
func Alive(owner string) bool {
	pidText, started, _ := strings.Cut(owner, "-")
	pid, err := strconv.ParseUint(pidText, 10, 32)
	if err != nil || started == "" {
		return false
	}
	process, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		// Only a process that exists denies access.
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	defer windows.CloseHandle(process)
	// A process that has ended keeps its id while a handle to it is open.
	if event, err := windows.WaitForSingleObject(process, 0); err == nil && event == windows.WAIT_OBJECT_0 {
		return false
	}
	at, err := startTime(process)
	return err != nil || strconv.FormatInt(at, 10) == started
}

func startTime(process windows.Handle) (int64, error) {
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		return 0, err
	}
	return created.Nanoseconds(), nil
}
