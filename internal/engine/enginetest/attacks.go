package enginetest

// attack is one attempt, the body of a function in each language. Words in capitals
// are replaced by the targets.
type attack struct {
	key    string
	bodies map[string]string
}

const (
	libc = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
	// mustNotFind ends bodies that read something without an error: it must not contain the secret.
	mustNotFind = "\nreturn 'found' if STOLEN in str(text) else 'refused'"
)

var attacks = []attack{
	{"a file of the machine is not read", map[string]string{
		"python":     "return open(FILE).read()",
		"javascript": "return require('fs').readFileSync(FILE, 'utf8')",
	}},
	{"a folder of the machine is not listed", map[string]string{
		"python":     "import os\nreturn os.listdir(FOLDER)",
		"javascript": "return require('fs').readdirSync(FOLDER)",
	}},
	{"the machine's passwords are not read", map[string]string{
		"python":     "return open('/etc/shadow').read()",
		"javascript": "return require('fs').readFileSync('/etc/shadow', 'utf8')",
	}},
	{"a system file is not written", map[string]string{
		"python":     "open('/usr/lib/x', 'w')",
		"javascript": "require('fs').writeFileSync('/usr/lib/x', '')",
	}},
	{"a folder is not made in the root", map[string]string{
		"python":     "import os\nos.mkdir('/x')",
		"javascript": "require('fs').mkdirSync('/x')",
	}},
	{"a link does not lead out", map[string]string{
		"python":     "import os\nos.symlink(FOLDER, 'out')\nreturn os.listdir('out')",
		"javascript": "const fs = require('fs'); fs.symlinkSync(FOLDER, 'out'); return fs.readdirSync('out')",
	}},
	{"TCP to the server", map[string]string{
		"python":     "import socket\nsocket.create_connection(('127.0.0.1', PORT), 1)",
		"javascript": "await new Promise((yes, no) => require('net').connect(PORT, '127.0.0.1', yes).on('error', no))",
	}},
	{"TCP to the world", map[string]string{
		"python":     "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)",
		"javascript": "await fetch('http://192.0.2.1/', {signal: AbortSignal.timeout(1000)})",
	}},
	{"UDP", map[string]string{
		"python":     "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
		"javascript": "await new Promise((yes, no) => require('dgram').createSocket('udp4').on('error', no).send('x', 53, '192.0.2.1', (e) => e ? no(e) : yes()))",
	}},
	{"an abstract socket of the server", map[string]string{
		"python":     "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0' + ABSTRACT)",
		"javascript": "await new Promise((yes, no) => require('net').connect('\\0' + ABSTRACT, yes).on('error', no))",
	}},
	{"raw sockets", map[string]string{"python": "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)"}},
	{"exec", map[string]string{
		"python":     "import os\nos.execv('/bin/true', ['true'])",
		"javascript": "require('child_process').execFileSync('/bin/true')",
	}},
	{"a subprocess", map[string]string{
		"python":     "import subprocess\nreturn subprocess.run(['id'], capture_output=True).stdout",
		"javascript": "return require('child_process').execSync('id').toString()",
	}},
	{"fork", map[string]string{"python": "import os\nif os.fork() == 0: os._exit(0)"}},
	{"ptrace", map[string]string{"python": libc + "if libc.ptrace(16, 1, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'ptrace')"}},
	{"the memory of another process", map[string]string{
		"python": libc + "class V(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('n', ctypes.c_size_t)]\nb = ctypes.create_string_buffer(8)\nv = V(ctypes.addressof(b), 8)\nif libc.process_vm_readv(1, ctypes.byref(v), 1, ctypes.byref(v), 1, 0) < 0: raise OSError(ctypes.get_errno(), 'x')",
	}},
	{"a signal to the server", map[string]string{
		"python":     "import os\nos.kill(SERVER, 0)",
		"javascript": "process.kill(SERVER, 0)",
	}},
	{"a signal to the first process", map[string]string{
		"python":     "import os\nos.kill(1, 9)",
		"javascript": "process.kill(1, 'SIGKILL')",
	}},
	{"a pidfd of the first process", map[string]string{"python": "import os\nos.pidfd_open(1)"}},
	{"a descriptor of the first process", map[string]string{
		"python": libc + "import os\nif libc.syscall(438, os.pidfd_open(1), 0, 0) < 0: raise OSError(ctypes.get_errno(), 'pidfd_getfd')",
	}},
	{"the memory of the first process in procfs", map[string]string{
		"python":     "return open('/proc/1/mem', 'rb').read(1)",
		"javascript": "const fs = require('fs'); return fs.readSync(fs.openSync('/proc/1/mem'), Buffer.alloc(1))",
	}},
	{"the environment of the server in procfs", map[string]string{
		"python":     "text = open('/proc/SERVER/environ').read()" + mustNotFind,
		"javascript": "return require('fs').readFileSync('/proc/SERVER/environ', 'utf8').includes(STOLEN) ? 'found' : 'refused'",
	}},
	{"the environment of the first process in procfs", map[string]string{
		"python":     "text = open('/proc/1/environ').read()" + mustNotFind,
		"javascript": "return require('fs').readFileSync('/proc/1/environ', 'utf8').includes(STOLEN) ? 'found' : 'refused'",
	}},
	{"the kernel's settings", map[string]string{
		"python":     "open('/proc/sys/kernel/hostname', 'w').write('x')",
		"javascript": "require('fs').writeFileSync('/proc/sys/kernel/hostname', 'x')",
	}},
	{"the environment", map[string]string{
		"python":     "import os\ntext = dict(os.environ)" + mustNotFind,
		"javascript": "return JSON.stringify(process.env).includes(STOLEN) ? 'found' : 'refused'",
	}},
	{"namespaces", map[string]string{"python": libc + "if libc.unshare(0x10000000) < 0: raise OSError(ctypes.get_errno(), 'unshare')"}},
	{"mounts", map[string]string{"python": libc + "if libc.mount(b'x', b'/work', b'tmpfs', 0, 0) < 0: raise OSError(ctypes.get_errno(), 'mount')"}},
	{"memory that outlives the run", map[string]string{"python": libc + "if libc.shmget(42, 4096, 0o1600) < 0: raise OSError(ctypes.get_errno(), 'shmget')"}},
	{"becoming another user", map[string]string{
		"python":     "import os\nos.setuid(0)",
		"javascript": "process.setuid(0)",
	}},
	{"raising a limit", map[string]string{"python": "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (resource.RLIM_INFINITY,) * 2)"}},
	{"a filter is not taken back", map[string]string{"python": libc + "if libc.prctl(22, 0, 0, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'seccomp')"}},
	{"the ways out of an interpreter", map[string]string{
		"javascript": "const names = ['std', 'os', '__hostFunctions', 'load', 'read', 'scriptArgs', 'Deno', 'Bun', 'XMLHttpRequest', 'importScripts', '__filename']; return names.some((n) => n in globalThis) ? 'found' : 'refused'",
	}},
	{"code that is made from text", map[string]string{
		"javascript": "return new Function('return typeof __hostFunctions')() === 'undefined' ? 'refused' : 'found'",
	}},
	{"host functions through functions", map[string]string{
		"javascript": "for (const f of [console.log, call_tool, tools.echo.value, setTimeout, artifacts.put]) { try { if (f.caller ?? f.arguments) return 'found' } catch (e) {} } return 'refused'",
	}},
	{"host functions through traps on prototypes", map[string]string{
		"javascript": "const seen = new Set(), names = ['place', 'resolve', 'body', 'send', 'deliver', 'status', 'token']; for (const name of names) Object.defineProperty(Object.prototype, name, {set(v) { seen.add(typeof v) }, get() { return undefined }, configurable: true}); const found = seen.has('function'); for (const name of names) delete Object.prototype[name]; return found ? 'found' : 'refused'",
	}},
	{"a token in an error", map[string]string{
		"javascript": "try { await call_tool('secret:read') } catch (e) { return (JSON.stringify(e) + e.stack).includes('token') ? 'found' : 'refused' }",
	}},
}
