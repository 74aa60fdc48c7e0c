package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Volume is a file system of its own, which a test can fill, and whose power it can cut.
type Volume struct {
	// Dir is where it is mounted.
	Dir   string
	t     testing.TB
	image string
}

const volumePrefix = "stagedoor-volume-"

var volumes atomic.Int64

// CanMount returns why this process may not have volumes; nil if it may.
func CanMount() error {
	if os.Getuid() != 0 {
		return errors.New("only root can mount a file system")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return err
	}
	_, err := exec.LookPath("mkfs.ext4")
	return err
}

// NewVolume mounts an empty file system of a size in bytes. It occupies only what is written to it. Files that are not
// synced are lost with CutPower.
func NewVolume(t testing.TB, size int64) *Volume {
	t.Helper()
	removeDeadVolumes()
	base := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-%d", volumePrefix, os.Getpid(), volumes.Add(1)))
	v := &Volume{Dir: base, t: t, image: base + ".img"}
	must.OK(t, os.Mkdir(v.Dir, 0o755))
	must.OK(t, os.WriteFile(v.image, nil, 0o600))
	t.Cleanup(func() {
		v.unmount()
		_ = os.Remove(v.Dir)
		_ = os.Remove(v.image)
	})
	must.OK(t, os.Truncate(v.image, size))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", v.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	v.mount()
	return v
}

// mount mounts the image by a new loop device. With the device of before, it could get the file system of before as
// well, which refuses everything after CutPower: another mount namespace, such as that of a container, may still have
// it mounted.
func (v *Volume) mount() {
	v.t.Helper()
	device, err := exec.Command("losetup", "--find", "--show", v.image).CombinedOutput()
	if err != nil {
		v.t.Fatalf("losetup %s: %v\n%s", v.image, err, device)
	}
	name := strings.TrimSpace(string(device))
	out, err := exec.Command("mount", name, v.Dir).CombinedOutput()
	_ = exec.Command("losetup", "--detach", name).Run() // the kernel removes it when it is unmounted
	if err != nil {
		v.t.Fatalf("mount %s: %v\n%s", v.image, err, out)
	}
}

func (v *Volume) unmount() {
	v.t.Helper()
	var err error
	for range 200 { // a process that was killed may still hold a file
		if err = syscall.Unmount(v.Dir, 0); err == nil || err == syscall.EINVAL {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	v.t.Errorf("unmount %s: %v", v.Dir, err)
}

func (v *Volume) filler() string { return filepath.Join(v.Dir, "filler") }

// Fill leaves no free space.
func (v *Volume) Fill() {
	v.t.Helper()
	f, err := os.OpenFile(v.filler(), os.O_CREATE|os.O_WRONLY, 0o600)
	must.OK(v.t, err)
	defer f.Close()
	at := int64(0)
	for step := int64(1 << 30); step >= 4096; {
		if err := syscall.Fallocate(int(f.Fd()), 0, at, step); err != nil {
			step /= 2
			continue
		}
		at += step
	}
}

// Free gives back the space that Fill took.
func (v *Volume) Free() {
	v.t.Helper()
	must.OK(v.t, os.Remove(v.filler()))
}

// Sync makes everything durable that was written so far.
func (v *Volume) Sync() {
	v.t.Helper()
	if out, err := exec.Command("sync", "-f", v.Dir).CombinedOutput(); err != nil {
		v.t.Errorf("sync %s: %v: %s", v.Dir, err, out)
	}
}

// CutPower loses everything that was not synced. From then on the file system refuses everything, until Remount.
func (v *Volume) CutPower() {
	v.t.Helper()
	dir, err := os.Open(v.Dir)
	must.OK(v.t, err)
	defer dir.Close()
	const shutdown, withoutFlush = 0x8004587D, 2 // EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
	flags := uint32(withoutFlush)
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); code != 0 {
		v.t.Errorf("shut down %s: %v", v.Dir, code)
	}
}

// Remount mounts the file system again after CutPower. No process may have a file open.
func (v *Volume) Remount() {
	v.t.Helper()
	v.unmount()
	v.mount()
}

// removeDeadVolumes unmounts and deletes what a test process has left that was killed.
func removeDeadVolumes() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), volumePrefix+"*"))
	for _, path := range left {
		if isLeft(strings.TrimSuffix(filepath.Base(path), ".img"), volumePrefix) {
			_ = syscall.Unmount(path, syscall.MNT_DETACH)
			_ = os.Remove(path)
		}
	}
}
