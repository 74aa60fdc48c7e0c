package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/version"
)

// Main runs sandboxd until ctx ends or it receives SIGINT or SIGTERM, and returns its exit status.
func Main(ctx context.Context, args []string, now func() time.Time, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("sandboxd", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "sandboxd runs the sandbox platform: a simulated creator platform for development and tests.\n\n")
		flags.PrintDefaults()
	}
	addr := flags.String("addr", "127.0.0.1:18200", "`address` to listen on; /control answers on loopback only")
	origin := flags.String("origin", "", "base `URL` that clients use (default http:// and the address)")
	data := flags.String("data", "sandbox.db", "state `file`; delete it, or POST /control/seed, to start over")
	regions := flags.String("regions", "127.0.1.1=us,127.0.2.1=uk", "region `names` of source addresses, for the request log")
	mail := flags.String("mail", "", "`address` to receive mail on (SMTP); /control/mails and the page /mails show it")
	rate := flags.Int("rate", 0, "calls per minute that a session may make; 0 for no limit")
	client := flags.String("oauth-client", "", "OAuth `client` as id:secret,redirect-uri,… (default "+auth.DefaultClient.ID+":"+auth.DefaultClient.Secret+
		" with loopback redirect URIs)")
	noSince := flags.Bool("no-since", false, "simulate a platform that cannot list missed frames")
	loaded := flags.Int("loaded", 0, "how many creators to keep in memory (default 400)")
	show := flags.Bool("version", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *show {
		fmt.Fprintln(stdout, "sandboxd", version.Get())
		return 0
	}
	log := slog.New(slog.NewJSONHandler(stdout, nil))
	named, err := parseRegions(*regions)
	if err != nil {
		fmt.Fprintln(stderr, "sandboxd:", err)
		return 2
	}
	var clients []auth.Client
	if *client != "" {
		one, err := auth.ParseClient(*client)
		if err != nil {
			fmt.Fprintln(stderr, "sandboxd: -oauth-client:", err)
			return 2
		}
		clients = append(clients, one)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *addr)
	if err != nil {
		fmt.Fprintln(stderr, "sandboxd: cannot listen:", err)
		return 1
	}
	var mails net.Listener
	if *mail != "" {
		if mails, err = (&net.ListenConfig{}).Listen(ctx, "tcp", *mail); err != nil {
			fmt.Fprintln(stderr, "sandboxd: cannot listen for mail:", err)
			return 1
		}
	}
	if *origin == "" {
		*origin = "http://" + listener.Addr().String()
	}
	p, err := New(ctx, Config{
		Data: *data, Origin: strings.TrimSuffix(*origin, "/"), Regions: named, PerMinute: *rate, NoSince: *noSince, Loaded: *loaded, Clients: clients, Now: now, Log: log,
	})
	if err != nil {
		fmt.Fprintln(stderr, "sandboxd:", err)
		return 1
	}
	log.InfoContext(ctx, "sandbox is open", slog.String("origin", *origin), slog.String("data", *data), slog.String("version", version.String()))
	if err := serve(ctx, listener, mails, p); err != nil {
		fmt.Fprintln(stderr, "sandboxd:", err)
		return 1
	}
	return 0
}

// serve runs the server until ctx ends, gives running requests 2 s to finish, and closes the platform. mails is nil if
// it receives no mail.
func serve(ctx context.Context, listener, mails net.Listener, p *Platform) error {
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	if mails != nil {
		go func() {
			if err := p.Mails.Serve(ctx, mails); err != nil {
				failed <- fmt.Errorf("receive mail: %w", err)
			}
		}()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if server.Shutdown(ending) != nil {
			// Shutdown does not wait for sockets and does not interrupt hanging responses.
			err = server.Close()
		}
	}
	return errors.Join(err, p.Close())
}

// parseRegions parses a list such as 127.0.1.1=us,127.0.2.1=uk.
func parseRegions(text string) (map[string]string, error) {
	named := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		address, region, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || net.ParseIP(address) == nil || region == "" {
			return nil, fmt.Errorf("-regions: %q is not in the form address=name, such as 127.0.1.1=us", pair)
		}
		named[address] = region
	}
	return named, nil
}
