//go:build amd64 || arm64

package lockdown

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// use is a guest that uses up a resource, or reports its own state.
func use(args []string) int {
	number := 0
	if len(args) > 1 {
		number, _ = strconv.Atoi(args[1])
	}
	switch args[0] {
	case "exit":
		return number
	case "signal":
		_ = syscall.Kill(os.Getpid(), syscall.Signal(number))
		time.Sleep(time.Minute)
	case "namespaces":
		links, _ := filepath.Glob("/proc/self/ns/*")
		for _, link := range links {
			target, _ := os.Readlink(link)
			fmt.Println(filepath.Base(link), target)
		}
	case "forks":
		fmt.Print(forks())
	case "memory":
		for {
			touch(unix.MAP_PRIVATE)
		}
	case "shared memory":
		for {
			touch(unix.MAP_SHARED)
		}
	case "disk":
		written, err := fill("/work/big")
		fmt.Println(written, errors.Is(err, unix.ENOSPC))
		written, err = fill("/tmp/big")
		fmt.Println(written, errors.Is(err, unix.ENOSPC))
		written, err = fill("/dev/shm/big")
		fmt.Println(written, errors.Is(err, unix.ENOSPC))
	case "inodes":
		for i := 0; ; i++ {
			if err := os.WriteFile(fmt.Sprintf("/work/%d", i), nil, 0o600); err != nil {
				fmt.Println(i, errors.Is(err, unix.ENOSPC))
				return 0
			}
		}
	case "files":
		for i := 0; ; i++ {
			if _, err := os.Open("/dev/null"); err != nil {
				fmt.Println(i, errors.Is(err, unix.EMFILE))
				return 0
			}
		}
	case "spin":
		for range number {
			go spin()
		}
		spin()
	case "spin in children":
		self := os.Getenv("SELF")
		for range number {
			if err := exec.Command(self, guestRole, "spin", "0").Start(); err != nil {
				return 1
			}
		}
		time.Sleep(time.Hour)
	case "orphan", "orphan and exit":
		return orphan(args)
	case "compiling":
		return compiling()
	case "locked":
		return locked()
	case "sleep":
		time.Sleep(time.Hour)
	case "echo":
		fmt.Println(strings.Join(args[1:], " "))
	}
	return 0
}

func spin() {
	for i := 0; ; i++ {
		runtime.KeepAlive(i)
	}
}

// forks forks processes that keep running, until fork fails.
func forks() int {
	for n := 0; ; n++ {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return n
		}
		if pid == 0 {
			for {
				syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
}

func touch(flags int) {
	block, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_ANONYMOUS)
	if err != nil {
		fmt.Print("refused")
		os.Exit(3)
	}
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
}

func fill(path string) (written int, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 1<<16)
	for {
		n, err := f.Write(block)
		written += n
		if err != nil {
			return written, err
		}
	}
}

// orphan starts a process that has left its session and whose parent has ended.
func orphan(args []string) int {
	token := args[1]
	self := os.Getenv("SELF")
	if len(args) > 2 { // the middle one
		last := exec.Command(self, guestRole, "sleep", token)
		last.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := last.Start(); err != nil {
			return 1
		}
		return 0
	}
	middle := exec.Command(self, guestRole, "orphan", token, "middle")
	middle.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := middle.Run(); err != nil {
		return 1
	}
	fmt.Println("ready")
	if args[0] == "orphan" {
		time.Sleep(time.Hour)
	}
	return 0
}
