package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/service"
)

// serviceFlags holds the flags that all service commands have.
type serviceFlags struct {
	*cli
	system, homeTyped, configTyped bool
	prefix, kind                   string
}

func (a *cli) serviceCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "service",
		Short: "Run the server as a service of the system",
		Long: `Run toolroom serve as a service of systemd or launchd: for your user, or with --system
for the whole machine. With --prefix, the files are written below a folder, such as the
root of an image, and nothing is started.`,
		Example: `  toolroom service install
  toolroom service status
  toolroom service logs --follow
  toolroom service uninstall`,
	}
	requireSubcommand(c)
	c.AddCommand(a.serviceInstallCommand(), a.serviceStatusCommand(), a.serviceLogsCommand(), a.serviceUninstallCommand())
	return c
}

func (a *cli) serviceFlags(c *cobra.Command) *serviceFlags {
	o := &serviceFlags{cli: a}
	f := c.Flags()
	f.BoolVar(&o.system, "system", false, "for the whole machine, not for your user")
	f.StringVar(&o.prefix, "prefix", "", "write below this folder, and start nothing")
	f.StringVar(&o.kind, "manager", defaultManager(), "systemd or launchd")
	completeValues(c, "manager", service.Systemd, service.Launchd)
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		o.homeTyped, o.configTyped = c.Flags().Changed("home"), c.Flags().Changed("config")
		if o.prefix != "" {
			o.prefix = a.typedPath(o.prefix)
		}
		return oneOf("--manager", o.kind, service.Systemd, service.Launchd)
	}
	return o
}

func defaultManager() string {
	if runtime.GOOS == "darwin" {
		return service.Launchd
	}
	return service.Systemd
}

// The home and config of a system-wide service, which are also those of the packages.
const (
	systemHome   = "/var/lib/toolroom"
	systemConfig = "/etc/toolroom/toolroom.yaml"
)

// service returns the service that the flags describe, and its config, empty if it has none.
func (o *serviceFlags) service(listen, account string) (s service.Service, file string, err error) {
	self := stablePath(o.Self)
	if self == "" {
		return s, "", toolroom.Errorf(toolroom.CodeInternal, "the path of this program is not known")
	}
	s = service.Service{Kind: o.kind, System: o.system, User: account, Folder: o.home, Log: o.logFile()}
	if o.system {
		file = systemConfig
		if !o.homeTyped {
			s.Folder = systemHome
		}
		if o.configTyped {
			file = o.typedPath(o.configFile)
		}
	} else {
		s.SearchPath = absoluteFolders(os.Getenv("PATH"))
		found, err := o.findConfig()
		if err != nil {
			return s, "", err
		}
		if found != "" {
			// A config that is named needs no trust, so the user must have agreed.
			if _, err := config.LoadVerified(found, o.verifier(found)); err != nil {
				return s, "", err
			}
			file = o.typedPath(found)
		}
	}
	s.Command = []string{self, "serve", "--home", s.Folder}
	if file != "" {
		s.Command = append(s.Command, "--config", file)
	}
	if listen != "" {
		if _, port, err := net.SplitHostPort(listen); err != nil || port == "" {
			return s, "", usage("for example --listen 127.0.0.1:7070", "--listen %q is not host:port", listen)
		}
		s.Command = append(s.Command, "--listen", listen)
	}
	return s, file, nil
}

// logFile returns the log file of launchd.
func (o *serviceFlags) logFile() string {
	if o.system {
		return "/Library/Logs/toolroom.log"
	}
	return filepath.Join(o.UserHome, "Library", "Logs", "toolroom.log")
}

// absoluteFolders returns a search path without the folders that are relative to the working
// folder.
func absoluteFolders(list string) string {
	folders := slices.DeleteFunc(filepath.SplitList(list), func(one string) bool { return !filepath.IsAbs(one) })
	return strings.Join(folders, string(filepath.ListSeparator))
}

// file returns where the service's file is, below --prefix.
func (o *serviceFlags) file() string {
	path := service.Service{Kind: o.kind, System: o.system}.Path(o.UserHome, o.UserConfig)
	if o.prefix == "" {
		return path
	}
	return filepath.Join(o.prefix, path)
}

func (o *serviceFlags) manager() service.Manager {
	return service.Manager{Kind: o.kind, System: o.system, UID: os.Getuid(), Run: o.runWithOutput}
}

// runWithOutput runs a program whose output becomes that of this command.
func (a *cli) runWithOutput(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdout, c.Stderr = a.Out, a.Err
	err := c.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s is not installed here", name)
	}
	return err
}

func (a *cli) serviceInstallCommand() *cobra.Command {
	var listen, account string
	var dryRun, noStart, force bool
	var o *serviceFlags
	c := &cobra.Command{
		Use:   "install",
		Short: "Install and start the service",
		Long: `Write the file of the service, and start it now and at each login, or with --system at
each boot. The service uses this home and config. With --system they are
/var/lib/toolroom and /etc/toolroom/toolroom.yaml, unless --home and --config name
others, and the service runs as the user toolroom, which must exist.`,
		Example: `  toolroom service install
  toolroom service install --dry-run
  sudo toolroom service install --system --listen 127.0.0.1:7070
  toolroom service install --system --prefix ./image`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			s, file, err := o.service(listen, account)
			if err != nil {
				return err
			}
			text, err := s.Text()
			if err != nil {
				return err
			}
			if dryRun {
				return o.screen.printf("# %s\n%s", o.file(), text)
			}
			if o.prefix == "" {
				if err := o.prepareStart(c.Context(), s, file); err != nil {
					return err
				}
			}
			if err := o.write(text, force); err != nil {
				return err
			}
			if o.prefix != "" || noStart {
				return o.screen.printf("wrote %s\n", o.file())
			}
			err = o.manager().Start(c.Context(), o.file())
			if err == nil {
				err = o.awaitServer(c.Context(), s.Folder)
			}
			if err != nil {
				_ = o.manager().Logs(c.Context(), s.Log, 3, false) // the reason
				return toolroom.Errorf(toolroom.CodeInternal, "%s was written, but the service did not start: %w", o.file(), err).
					WithHint("see why: toolroom service logs%s", o.systemFlag())
			}
			if o.kind == service.Systemd && !o.system {
				o.screen.say("The service ends when you log out, unless your user lingers: sudo loginctl enable-linger %s", o.User)
			}
			return o.screen.printf("installed and started %s; see it: toolroom service status%s\n", o.file(), o.systemFlag())
		},
	}
	o = a.serviceFlags(c)
	f := c.Flags()
	f.StringVar(&listen, "listen", "", "address to listen on (default: the config's, 127.0.0.1:7070)")
	f.StringVar(&account, "user", "toolroom", "with --system: the user that the service runs as")
	f.BoolVar(&dryRun, "dry-run", false, "print the file without writing it")
	f.BoolVar(&noStart, "no-start", false, "write the file without starting the service")
	f.BoolVar(&force, "force", false, "replace a file that was written by somebody else")
	return c
}

func (o *serviceFlags) systemFlag() string {
	if o.system {
		return " --system"
	}
	return ""
}

// prepareStart returns an error if the service cannot be started here. It writes a config for a
// system-wide service that has none.
func (o *serviceFlags) prepareStart(ctx context.Context, s service.Service, file string) error {
	m := o.manager()
	if err := m.Check(); err != nil {
		return err
	}
	if serverRuns(s.Folder) && !m.Active(ctx) {
		return toolroom.Errorf(toolroom.CodeConflict, "a server of the home %s runs already: %s", s.Folder, describeServer(s.Folder)).
			WithHint("stop it, and install the service then")
	}
	if !o.system {
		return os.MkdirAll(s.Folder, 0o700)
	}
	if _, err := user.Lookup(s.User); err != nil {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no user %s, as whom the service would run", s.User).
			WithHint("make it: sudo useradd --system --create-home --home-dir %s %s; or name another one with --user", s.Folder, s.User)
	}
	if info, err := os.Stat(s.Folder); err != nil || !info.IsDir() {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no folder %s for the state", s.Folder).
			WithHint("make it: sudo install -d -m 700 -o %s %s", s.User, s.Folder)
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		if err := config.Init(file, false); err != nil {
			return err
		}
		o.screen.say("wrote %s", file)
	}
	return nil
}

// startTime is how long a new service may take until it serves.
const startTime = 30 * time.Second

// awaitServer waits until the server of a home runs. On systems without a socket for commands it
// returns at once and trusts the service manager.
func (o *serviceFlags) awaitServer(ctx context.Context, home string) error {
	if runtime.GOOS != "linux" || len(socketPath(home)) > maxSocketPath {
		return nil
	}
	m := o.manager()
	for end := time.Now().Add(startTime); ; {
		conn, err := net.Dial("unix", socketPath(home))
		if err == nil {
			return conn.Close()
		}
		if m.Failed(ctx) {
			return errors.New("its process has ended")
		}
		if time.Now().After(end) {
			return fmt.Errorf("it does not serve after %v", startTime)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (o *serviceFlags) write(text string, force bool) error {
	file := o.file()
	before, err := os.ReadFile(file)
	if err == nil && !force && !service.IsOurs(before) {
		return toolroom.Errorf(toolroom.CodeConflict, "%s was not written by toolroom service install", file).WithHint("replace it with --force")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(file, []byte(text), 0o644)
}

// checkInstalled returns an error with the next step if the service's file does not exist.
func (o *serviceFlags) checkInstalled() error {
	if _, err := os.Stat(o.file()); err == nil {
		return nil
	}
	e := toolroom.Errorf(toolroom.CodeNotFound, "the service is not installed: there is no %s", o.file())
	if o.prefix == "" {
		other := service.Service{Kind: o.kind, System: !o.system}.Path(o.UserHome, o.UserConfig)
		if _, err := os.Stat(other); err == nil && !o.system {
			return e.WithHint("%s is: add --system", other)
		} else if err == nil {
			return e.WithHint("%s is: leave --system out", other)
		}
	}
	return e.WithHint("toolroom service install%s", o.systemFlag())
}

// runManager runs a command of the service manager and returns its exit code. With --prefix it
// prints the service's file instead.
func (o *serviceFlags) runManager(run func(service.Manager) error) error {
	if err := o.checkInstalled(); err != nil {
		return err
	}
	if o.prefix != "" {
		text, err := os.ReadFile(o.file())
		if err != nil {
			return err
		}
		return o.screen.printf("# %s\n%s", o.file(), text)
	}
	m := o.manager()
	if err := m.Check(); err != nil {
		return err
	}
	var code *exec.ExitError
	if err := run(m); errors.As(err, &code) {
		return exitCode(code.ExitCode())
	} else if err != nil {
		return err
	}
	return nil
}

func (a *cli) serviceStatusCommand() *cobra.Command {
	var o *serviceFlags
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the service",
		Long: `Show the state of the service as systemd or launchd reports it, with its exit code.
toolroom status shows what the server itself reports.`,
		Example: "  toolroom service status",
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return o.runManager(func(m service.Manager) error { return m.Status(c.Context()) })
		},
	}
	o = a.serviceFlags(c)
	return c
}

func (a *cli) serviceLogsCommand() *cobra.Command {
	var o *serviceFlags
	var follow bool
	var lines int
	c := &cobra.Command{
		Use:     "logs",
		Short:   "Show the log of the service",
		Example: "  toolroom service logs --follow",
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			// It does not read the config, whose mistake may be why the service ended.
			return o.runManager(func(m service.Manager) error { return m.Logs(c.Context(), o.logFile(), lines, follow) })
		},
	}
	o = a.serviceFlags(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines, until Ctrl-C")
	c.Flags().IntVarP(&lines, "lines", "n", 50, "number of lines")
	return c
}

func (a *cli) serviceUninstallCommand() *cobra.Command {
	var o *serviceFlags
	c := &cobra.Command{
		Use:     "uninstall",
		Short:   "Stop and remove the service",
		Long:    "Stop the service and remove its file. The home and the config stay.",
		Example: "  toolroom service uninstall",
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.checkInstalled(); err != nil {
				return err
			}
			text, err := os.ReadFile(o.file())
			if err != nil {
				return err
			}
			if !service.IsOurs(text) {
				return toolroom.Errorf(toolroom.CodeConflict, "%s was not written by toolroom service install", o.file()).
					WithHint("remove it the way it came, for example with the package")
			}
			m := o.manager()
			running := o.prefix == "" && m.Check() == nil
			if running {
				if err := m.Stop(c.Context()); err != nil {
					return fmt.Errorf("stop the service: %w", err)
				}
			}
			if err := os.Remove(o.file()); err != nil {
				return err
			}
			if running {
				if err := m.Removed(c.Context()); err != nil {
					return err
				}
			}
			return o.screen.printf("removed %s; the home and the config stay\n", o.file())
		},
	}
	o = a.serviceFlags(c)
	return c
}

// stablePath returns a path of this program that an update of its package keeps: the one on PATH
// if that is the same file, else own.
func stablePath(own string) string {
	found, err := exec.LookPath("toolroom")
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return own
	}
	a, errA := os.Stat(found)
	b, errB := os.Stat(own)
	if own == "" || errA == nil && errB == nil && os.SameFile(a, b) {
		return found
	}
	return own
}
