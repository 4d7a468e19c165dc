package effects

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// maxLines is how many lines of a value are examined one by one, and maxHosts how many of its
// URLs are reported; a value with more may name any host.
const (
	maxLines = 200
	maxHosts = 50
)

// readByLooks guesses the effects of an argument from the form of its value, because an MCP
// server can give its arguments any names. A value of several forms has the effects of all.
func (c *collector) readByLooks(v string) {
	c.addURLs(v)
	text := strings.TrimSpace(v)
	lines := strings.Split(text, "\n")
	if len(lines) > maxLines {
		lines = lines[:maxLines]
	}
	everyLine := !slices.ContainsFunc(lines, func(line string) bool { return !looksLikePath(strings.TrimSpace(line)) })
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if everyLine && !strings.Contains(line, "://") {
			c.addNormalized(toolroom.Effect{Kind: toolroom.EffectFile, Target: line})
		}
	}
	if len(lines) == 1 && looksLikeHost(text) {
		c.addNormalized(toolroom.Effect{Kind: toolroom.EffectHost, Target: text})
	}
	if looksLikeCommand(text) {
		for _, e := range c.readCommandLine(text) {
			c.addNormalized(e)
		}
	}
}

// addURLs adds the hosts of all URLs in v.
func (c *collector) addURLs(v string) {
	if !strings.Contains(v, "://") && !hasPrefixFold(strings.TrimSpace(v), "file:") {
		return
	}
	found := map[string]bool{}
	for _, word := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`<>(){}|,;", r) }) {
		if !strings.Contains(word, "://") && !hasPrefixFold(word, "file:") || found[word] {
			continue
		}
		found[word] = true
		if len(found) > maxHosts {
			c.addNormalized(toolroom.Effect{Kind: toolroom.EffectHost})
			return
		}
		if hasPrefixFold(word, "file:") {
			c.addNormalized(toolroom.Effect{Kind: toolroom.EffectFile, Target: word})
			continue
		}
		// Text before the scheme, as in Markdown or "see:https://", is not part of the URL.
		before := word[:strings.Index(word, "://")]
		start := strings.LastIndexFunc(before, func(r rune) bool { return !isSchemeChar(r) }) + 1
		c.addNormalized(toolroom.Effect{Kind: toolroom.EffectHost, Target: word[start:]})
	}
}

func isSchemeChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '-' || r == '.'
}

var drivePrefix = pattern.Lazy(`^[A-Za-z]:[\\/]`)

// looksLikePath reports whether a line can be the path of a file: it begins like one, or it is
// a single word with separators.
func looksLikePath(line string) bool {
	switch {
	case line == "" || len(line) > 4096:
		return false
	case line[0] == '/' || line[0] == '~' || line[0] == '\\',
		strings.HasPrefix(line, "./"), strings.HasPrefix(line, "../"), strings.HasPrefix(line, `.\`), strings.HasPrefix(line, `..\`), line == "..",
		drivePrefix().MatchString(line), strings.Contains(strings.ToLower(line), "..%2f"):
		return true
	default:
		return strings.ContainsAny(line, `/\`) && !strings.ContainsAny(line, " \t")
	}
}

var hostName = pattern.Lazy(`^(?:[A-Za-z0-9_-]+@)?([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)(\.?)(:[0-9]{1,5})?(/\S*)?$`)

// fileExtensions are extensions of file names that are not top-level domains.
var fileExtensions = map[string]bool{
	"txt": true, "json": true, "yaml": true, "yml": true, "csv": true, "tsv": true, "png": true, "jpg": true, "jpeg": true, "gif": true, "svg": true,
	"html": true, "htm": true, "css": true, "pdf": true, "log": true, "xml": true, "toml": true, "ini": true, "conf": true, "js": true, "ts": true,
	"tsx": true, "jsx": true, "go": true, "cpp": true, "hpp": true, "java": true, "doc": true, "docx": true, "xls": true, "xlsx": true, "ppt": true,
	"pptx": true, "tmp": true, "bak": true, "lock": true, "sql": true, "db": true, "sqlite": true, "exe": true, "dll": true, "tar": true, "gz": true,
}

// looksLikeHost reports whether text can be a host, with or without a user, a port and a path.
func looksLikeHost(text string) bool {
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return false
		}
		_, err := netip.ParseAddr(text[1:end])
		return err == nil
	}
	if !strings.ContainsAny(text, ".:") && !strings.Contains(strings.ToLower(text), "localhost") {
		return false // as most texts are
	}
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	m := hostName().FindStringSubmatch(text)
	if m == nil || strings.Contains(text, "@") && m[3] == "" { // an email address
		return false
	}
	name := m[1]
	if strings.EqualFold(name, "localhost") {
		return true
	}
	if address := strings.SplitN(text, "/", 2)[0]; m[3] != "" {
		if _, err := netip.ParseAddrPort(address); err == nil {
			return true
		}
	}
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return m[3] != "" && strings.ContainsAny(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz") // name:port, not a time
	}
	last := strings.ToLower(name[dot+1:])
	letters := strings.IndexFunc(last, func(r rune) bool { return r < 'a' || r > 'z' }) < 0 || strings.HasPrefix(last, "xn--")
	return letters && len(last) > 1 && !fileExtensions[last]
}

// programNames are programs whose names are not ordinary words, so that a text that begins
// with one is a command line.
var programNames = shellWords(`rm rmdir unlink shred dd mkfs truncate chmod chown chgrp chattr mv cp ln tee touch mkdir
	bash sh zsh dash ksh fish csh tcsh powershell pwsh cmd.exe python python3 perl ruby php lua nodejs npm npx pip pip3
	curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp tar unzip gzip bzip2 xz git svn docker podman kubectl helm
	sudo su doas env xargs nohup setsid nsenter chroot eval systemctl kill pkill killall reboot crontab sed awk gawk grep
	psql mysql sqlite3 redis-cli mongo busybox openssl base64 xxd lsblk mount umount iptables useradd usermod passwd ls cd
	erase rd reg schtasks certutil bitsadmin mshta wscript cscript rundll32`)

// ambiguousNames are programs whose names are also ordinary words.
var ambiguousNames = shellWords(`find cat make cut sort head tail date time at install test read more less file join split
	look set go node man who type source exec export trap alias echo printf watch script expand fold format del`)

// looksLikeCommand reports whether text can be a command line.
func looksLikeCommand(text string) bool {
	if len(text) > 16<<10 {
		return false
	}
	first, rest, _ := strings.Cut(text, " ")
	name := strings.ToLower(path.Base(strings.Trim(first, `"'\`)))
	switch {
	case programNames[name]:
		return true
	case !ambiguousNames[name] && !strings.Contains(first, "/"):
		// A known program may follow in a pipeline, a list or a substitution.
		return strings.ContainsAny(text, "|;&`$") && slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n|;&`$(){}\"'", r) }), func(w string) bool {
			return programNames[strings.ToLower(path.Base(w))]
		})
	default:
		return strings.ContainsAny(rest, "|;&`$<>/~*") || strings.HasPrefix(strings.TrimSpace(rest), "-") || strings.Contains(rest, " -")
	}
}
