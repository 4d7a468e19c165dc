package effects

import (
	"path"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// textPrograms are programs and builtins whose arguments are only text and numbers.
var textPrograms = shellWords(`echo true false : pwd sleep seq expr basename dirname id whoami uname hostname arch nproc uptime
	logname tty sync printenv clear set return exit break continue shift umask ulimit
	jobs fg bg kill type which whereis yes tr cal factor popd dirs disown suspend times caller shopt`)

// filePrograms are programs and builtins that start no other program, but may use the files
// that they are given.
var filePrograms = shellWords(`test [ date ps df free who w groups users locale getent lsof pgrep cut`)

func shellWords(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

// systemFolders contain the programs that this package knows by name.
var systemFolders = []string{"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"}

// outsideSystemFolders reports whether program is a path outside systemFolders: such a file may
// be any program, whatever its name.
func outsideSystemFolders(program string) bool {
	return strings.Contains(program, "/") && !slices.Contains(systemFolders, path.Clean(path.Dir(program)))
}

// addUnknownProgram adds the effects of an unknown program: it may do anything.
func (r *shellReader) addUnknownProgram(args []field) {
	r.addAnyCommand()
	r.addPaths(args)
	r.add(toolroom.EffectFile, "", "")
	r.add(toolroom.EffectHost, "", "")
}

// addPaths adds file effects without a mode for the words that look like paths, also within
// options: what the program does with these files is unknown.
func (r *shellReader) addPaths(args []field) {
	for _, f := range args {
		switch {
		case !f.known:
			r.add(toolroom.EffectFile, "", "")
		case strings.HasPrefix(f.text, "-"):
			if at := strings.IndexAny(f.text, "/~"); at > 0 {
				r.addFile("", field{text: f.text[at:], known: true})
			}
		case wordLooksLikePath(f.text):
			if _, value, ok := strings.Cut(f.text, "="); ok && wordLooksLikePath(value) {
				r.addFile("", field{text: value, known: true})
			}
			r.addFile("", f)
		}
	}
}

func wordLooksLikePath(text string) bool {
	return strings.ContainsAny(text, "/~") && !strings.Contains(text, "://") && !strings.Contains(text, "\n")
}

// programOptions are long options of any program whose value is a program, or that change which
// program runs. Most programs also accept the beginning of an option's name.
var programOptions = strings.Fields(`--exec --exec-batch --command --use-compress-program --compress-program --to-command
	--checkpoint-action --info-script --new-volume-script --rsh --rsh-command --rmt-command --rsync-path --filter --pager --shell --editor
	--upload-pack --receive-pack --extcmd --open-files-in-pager --tool --eval --pre --pre-glob --hostname-bin --unzip-command --proxycommand
	--post-checkout --run --preprocessor --use-askpass --gpg --engine --plugin --load --lesskey-src --hook --template
	--strip-program --sh-exec --lua-exec --config --lesskey-content --daemon`)

// programLetters are the corresponding short options of known programs.
var programLetters = map[string]string{
	"tar": "IF", "rsync": "e", "scp": "SoFD", "ssh": "oFI", "zip": "T", "less": "k",
}

// takesProgram reports whether f is an option, of the program name, that takes a program.
func takesProgram(name string, f field) bool {
	if !f.known || !strings.HasPrefix(f.text, "-") {
		return false
	}
	flag, _, _ := strings.Cut(f.text, "=")
	if strings.HasPrefix(flag, "--") {
		return len(flag) > 3 && slices.ContainsFunc(programOptions, func(o string) bool { return strings.HasPrefix(o, flag) || strings.HasPrefix(flag, o) })
	}
	return strings.ContainsAny(flag, programLetters[name]) && programLetters[name] != ""
}

// longOptionLaunchers are programs that start others only by a long option.
var longOptionLaunchers = shellWords("sort split install rg bat cpio sed date git wget")

// controlsExecution reports whether a variable decides which program, library or configuration
// is loaded.
func controlsExecution(name string) bool {
	if slices.Contains(controllingVariables, name) {
		return true
	}
	return slices.ContainsFunc([]string{
		"GIT_", "LD_", "DYLD_", "BASH_FUNC_", "BASH_", "PYTHON", "PERL5", "RUBY", "NODE_", "NPM_", "npm_", "XDG_", "CARGO_", "DOCKER_",
		"LESS", "SSH_", "SUDO_", "PG", "PSQL", "MYSQL", "SQLITE", "RSYNC_", "CURL_", "RIPGREP_", "BAT_", "GCONV_", "OPENSSL_", "SSL", "MALLOC_", "GLIBC_", "AWK", "RES_", "TERM", "AUTOSSH_",
	}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	}) || slices.ContainsFunc([]string{
		"_RSH", "FLAGS", "OPTS", "OPTIONS", "PAGER", "EDITOR", "_CONFIG", "_CONFIG_FILE", "SHELL", "RC", "PRELOAD", "_PROXY", "_proxy", "PATH", "OPT", "_CONF", "_HOME",
		"MAGIC", "HOSTALIASES", "TAPE", "MORE",
	}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}
