package enginetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// secretHolder holds a value in a variable and waits. The program that looks for the value
// does not contain it.
var secretHolder = map[string]string{
	"python":     "left = ''.join(['NEIGH', 'BOURS'])\ntools.slow.wait()",
	"javascript": "globalThis.left = ['NEIGH', 'BOURS'].join(''); await tools.slow.wait()",
}

// intruder looks for the value in its own variables, in its own memory and in that of every
// process, and then tries to kill all processes.
var intruder = map[string]string{
	"python": `def attack():
    try:
        return 'found ' + left
    except NameError:
        pass
    import gc, os
    wanted = 'NEIGH' + 'BOURS'
    for o in gc.get_objects():
        if type(o) is dict and wanted in [v for v in list(o.values()) if type(v) is str and v is not wanted]:
            return 'found in ' + str(list(o)[:5])
    others = [pid for pid in range(1, 400) if pid != os.getpid()]
    for pid in others:
        try:
            open(f'/proc/{pid}/mem', 'rb').read(1)
            return f'found the memory of {pid}'
        except OSError:
            pass
    try:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        class Piece(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
        there = ctypes.create_string_buffer(8)
        piece = Piece(ctypes.addressof(there), 8)
        for pid in others:
            if libc.process_vm_readv(pid, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0) >= 0 or libc.ptrace(0x4206, pid, 0, 0) >= 0:
                return f'found the memory of {pid}'
    except (ImportError, OSError, TypeError, AttributeError):
        pass
    for pid in others:
        try:
            os.kill(pid, 9)
        except OSError:
            pass
    return 'refused'
attack()`,
	"javascript": `const wanted = 'NEIGH' + 'BOURS', seen = new Set();
const look = (o, depth) => {
	if (o === wanted) return true;
	if (depth > 6 || o === null || typeof o !== 'object' && typeof o !== 'function' || seen.has(o)) return false;
	seen.add(o);
	return Reflect.ownKeys(o).some((k) => { const d = Reflect.getOwnPropertyDescriptor(o, k); return d && 'value' in d && look(d.value, depth + 1) });
};
if (typeof left !== 'undefined' || look(globalThis, 0)) return 'found';
if (typeof process !== 'undefined' && process.kill)
	for (let pid = 1; pid < 400; pid++) if (pid !== process.pid) try { process.kill(pid, 'SIGKILL') } catch (e) {}
return 'refused'`,
}

// neighbours runs a program that looks for the data of a simultaneous run of the same owner, and
// tries to end it.
func (s *suite) neighbours(t *testing.T, language string) {
	r := newCallHandler()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() {
		result, err := s.engine.Run(ctx, s.job(language, secretHolder[language]), r)
		if err == nil {
			t.Logf("the neighbour gave %s", describe(result))
		}
		ended <- err
	}()
	for !r.received("slow:wait") {
		select {
		case err := <-ended:
			t.Fatalf("the neighbour has ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	result, err := s.engine.Run(t.Context(), s.job(language, intruder[language]), newCallHandler())
	switch {
	case err != nil:
		// The program may have killed itself or its interpreter.
		if toolroom.CodeOf(err) != toolroom.CodeExecutionFailed {
			t.Errorf("it ended with %v", err)
		}
	case result.Outcome.Failure != nil:
		if !s.options.Bare || !isMissingFeature(result.Outcome.Failure) {
			t.Errorf("it failed: %v", result.Outcome.Failure)
		}
	case result.Outcome.Value != bridge.Value("refused"):
		t.Errorf("it says %v", result.Outcome.Value)
	}
	select {
	case err := <-ended:
		t.Fatalf("the neighbour came to its end: %v", err)
	default:
	}
	end()
	if err := <-ended; toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("the neighbour, when it was cancelled, ended with %v", err)
	}
}

// received reports whether the handler received a call of a tool.
func (r *callHandler) received(tool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.calls, tool)
}
