package vm

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// addEntropy adds random bytes to the kernel's entropy, and reseeds its generator at
// once (random(4)): two VMs restored from one snapshot must not generate the same
// numbers.
func addEntropy(random []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info: bits, bytes, and the bytes.
	info := binary.NativeEndian.AppendUint32(nil, uint32(len(random)*8))
	info = append(binary.NativeEndian.AppendUint32(info, uint32(len(random))), random...)
	if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0]))); errno != 0 {
		return fmt.Errorf("add entropy: %w", errno)
	}
	if _, _, errno := syscall.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDRESEEDCRNG, 0); errno != 0 {
		return fmt.Errorf("reseed: %w", errno)
	}
	return nil
}
