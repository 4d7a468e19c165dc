package effects

import (
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// maxLines is how many lines of a text are looked at one by one, and maxHosts how many
// addresses of one text are told; beyond them it may name any.
const (
	maxLines = 200
	maxHosts = 50
)

// looks tells what the value of an argument looks like, if its name says nothing: a
// server is free to call its arguments what it likes. A value that looks like several
// things is told as all of them.
func (s *set) looks(v string) {
	s.addresses(v)
	text := strings.TrimSpace(v)
	lines := strings.Split(text, "\n")
	if len(lines) > maxLines {
		lines = lines[:maxLines]
	}
	everyLine := !slices.ContainsFunc(lines, func(line string) bool { return !looksLikePath(strings.TrimSpace(line)) })
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if everyLine && !strings.Contains(line, "://") {
			s.note(toolroom.Effect{Kind: toolroom.EffectFile, Target: line})
		}
	}
	if len(lines) == 1 && looksLikeHost(text) {
		s.note(toolroom.Effect{Kind: toolroom.EffectHost, Target: text})
	}
	if looksLikeCommand(text) {
		for _, e := range s.shell(text) {
			s.note(e)
		}
	}
}

// addresses notes the hosts of all URLs in a text.
func (s *set) addresses(v string) {
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
			s.note(toolroom.Effect{Kind: toolroom.EffectHost})
			return
		}
		if hasPrefixFold(word, "file:") {
			s.note(toolroom.Effect{Kind: toolroom.EffectFile, Target: word})
			continue
		}
		// What stands before the scheme, as in Markdown or "see:https://", is no part of it.
		before := word[:strings.Index(word, "://")]
		start := strings.LastIndexFunc(before, func(r rune) bool { return !isSchemeChar(r) }) + 1
		s.note(toolroom.Effect{Kind: toolroom.EffectHost, Target: word[start:]})
	}
}

func isSchemeChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '+' || r == '-' || r == '.'
}

var drive = regexp.MustCompile(`^[A-Za-z]:[\\/]`)

// looksLikePath reports whether a line can be the path of a file: it begins like one, or
// it is one word with separators.
func looksLikePath(line string) bool {
	switch {
	case line == "" || len(line) > 4096:
		return false
	case line[0] == '/' || line[0] == '~' || line[0] == '\\',
		strings.HasPrefix(line, "./"), strings.HasPrefix(line, "../"), strings.HasPrefix(line, `.\`), strings.HasPrefix(line, `..\`), line == "..",
		drive.MatchString(line), strings.Contains(strings.ToLower(line), "..%2f"):
		return true
	default:
		return strings.ContainsAny(line, `/\`) && !strings.ContainsAny(line, " \t")
	}
}

var hostName = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+@)?([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)(\.?)(:[0-9]{1,5})?(/\S*)?$`)

// notHosts are endings of file names that no domain has.
var notHosts = map[string]bool{
	"txt": true, "json": true, "yaml": true, "yml": true, "csv": true, "tsv": true, "png": true, "jpg": true, "jpeg": true, "gif": true, "svg": true,
	"html": true, "htm": true, "css": true, "pdf": true, "log": true, "xml": true, "toml": true, "ini": true, "conf": true, "js": true, "ts": true,
	"tsx": true, "jsx": true, "go": true, "cpp": true, "hpp": true, "java": true, "doc": true, "docx": true, "xls": true, "xlsx": true, "ppt": true,
	"pptx": true, "tmp": true, "bak": true, "lock": true, "sql": true, "db": true, "sqlite": true, "exe": true, "dll": true, "tar": true, "gz": true,
}

// looksLikeHost reports whether a text can be a host, with or without a user, a port and
// a path.
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
	m := hostName.FindStringSubmatch(text)
	if m == nil || strings.Contains(text, "@") && m[3] == "" { // it may be a mail address
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
	return letters && len(last) > 1 && !notHosts[last]
}

// programs are programs whose names are not words of ordinary language, so that a text
// that begins with one is a command line.
var programs = shellWords(`rm rmdir unlink shred dd mkfs truncate chmod chown chgrp chattr mv cp ln tee touch mkdir
	bash sh zsh dash ksh fish csh tcsh powershell pwsh cmd.exe python python3 perl ruby php lua nodejs npm npx pip pip3
	curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp tar unzip gzip bzip2 xz git svn docker podman kubectl helm
	sudo su doas env xargs nohup setsid nsenter chroot eval systemctl kill pkill killall reboot crontab sed awk gawk grep
	psql mysql sqlite3 redis-cli mongo busybox openssl base64 xxd lsblk mount umount iptables useradd usermod passwd ls cd
	erase rd reg schtasks certutil bitsadmin mshta wscript cscript rundll32`)

// words are programs whose names are ordinary words, too.
var words = shellWords(`find cat make cut sort head tail date time at install test read more less file join split
	look set go node man who type source exec export trap alias echo printf watch script expand fold format del`)

// looksLikeCommand reports whether a text can be a command line.
func looksLikeCommand(text string) bool {
	if len(text) > 16<<10 {
		return false
	}
	first, rest, _ := strings.Cut(text, " ")
	name := strings.ToLower(path.Base(strings.Trim(first, `"'\`)))
	switch {
	case programs[name]:
		return true
	case !words[name] && !strings.Contains(first, "/"):
		// Another program in a pipe, a list, or a substitution.
		return strings.ContainsAny(text, "|;&`$") && slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n|;&`$(){}\"'", r) }), func(w string) bool {
			return programs[strings.ToLower(path.Base(w))]
		})
	default:
		return strings.ContainsAny(rest, "|;&`$<>/~*") || strings.HasPrefix(strings.TrimSpace(rest), "-") || strings.Contains(rest, " -")
	}
}
