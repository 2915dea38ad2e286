package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/rs/zerolog"
)

const (
	schemeFile = "file"
	schemeBare = ""
)

// Factory makes the backend of a scheme from the FileIO properties that came
// with a table: catalog settings, table properties, vended credentials.
type Factory func(ctx context.Context, props map[string]string) (Backend, error)

// Store reaches objects with one set of settings. It is safe for
// concurrent use and shares connections and counters between all its FS.
type Store struct {
	opts    Options
	http    *http.Client
	limit   *limiter // nil: no limit
	clock   serverClock
	schemes map[string]Factory

	mu  sync.Mutex
	s3s map[S3Options]*s3Backend
}

// maxClients bounds the S3 clients that are kept; each set of vended
// credentials makes one.
const maxClients = 64

// New checks the options and makes a store. Nothing is contacted.
func New(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("check store options: %w", err)
	}
	o = o.withDefaults()
	client, err := newHTTPClient(o.S3, newBandwidth(o.BytesPerSecond))
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, http: client, limit: newLimiter(o.RequestsPerSecond), s3s: map[S3Options]*s3Backend{}}
	local := func(context.Context, map[string]string) (Backend, error) {
		return &localBackend{counters: o.Counters}, nil
	}
	s.schemes = map[string]Factory{
		"s3": s.s3Factory, "s3a": s.s3Factory, "s3n": s.s3Factory,
		"gs": s.gcsFactory, "abfs": s.azureFactory, "abfss": s.azureFactory, "wasb": s.azureFactory, "wasbs": s.azureFactory,
		schemeFile: local, schemeBare: local,
	}
	maps.Copy(s.schemes, o.Schemes)
	return s, nil
}

// Counters returns what the store has counted so far, live.
func (s *Store) Counters() *Counters { return s.opts.Counters }

// Logger is the logger the store was made with.
func (s *Store) Logger() zerolog.Logger { return s.opts.Logger }

// Close closes idle connections. FS values made before keep working.
func (s *Store) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// FS returns a view that is bound to ctx. props are FileIO properties of a
// catalog or table and may be nil; where they contradict the store's options,
// the options win. Clients are kept and shared between FS values with the same
// settings. ErrRemoteSigning is the one error that props alone can cause; it
// comes at the first use of an S3 path. Nothing is contacted.
func (s *Store) FS(ctx context.Context, props map[string]string) *FS {
	return &FS{ctx: ctx, mux: &mux{store: s, props: maps.Clone(props), made: map[string]Backend{}}}
}

// Schemes lists the URI schemes that have a backend, sorted.
func (s *Store) Schemes() []string {
	return slices.Sorted(maps.Keys(s.schemes))
}

// mux finds the backend of a path and keeps the ones it has made.
type mux struct {
	store  *Store
	props  map[string]string
	vended *Vended // nil: the credentials in props, if any, are used as they are

	mu   sync.Mutex
	made map[string]Backend
}

var errNoBackend = errors.New("there is no backend for this scheme")

func (m *mux) backend(ctx context.Context, path string) (Backend, error) {
	scheme := schemeOf(path)
	m.mu.Lock()
	defer m.mu.Unlock()
	if b, ok := m.made[scheme]; ok {
		return b, nil
	}
	factory, ok := m.store.schemes[scheme]
	if !ok {
		return nil, fmt.Errorf("%w: %q", errNoBackend, scheme)
	}
	b, err := m.make(ctx, factory, scheme)
	if err != nil {
		return nil, err
	}
	if m.store.opts.Wrap != nil {
		b = m.store.opts.Wrap(b)
	}
	m.made[scheme] = b
	return b, nil
}

func (m *mux) make(ctx context.Context, factory Factory, scheme string) (Backend, error) {
	if m.vended == nil || !isS3(scheme) || m.store.opts.Schemes[scheme] != nil {
		return factory(ctx, m.props)
	}
	b, err := m.vended.backend(ctx, m.store, m.props)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return factory(ctx, m.props)
	}
	return b, nil
}

func isS3(scheme string) bool { return scheme == "s3" || scheme == "s3a" || scheme == "s3n" }

func (s *Store) s3Factory(ctx context.Context, props map[string]string) (Backend, error) {
	o, err := s.opts.S3.fill(props)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.s3s[o]; ok {
		return b, nil
	}
	b, err := newS3Backend(ctx, o, s, nil)
	if err != nil {
		return nil, err
	}
	if len(s.s3s) >= maxClients {
		clear(s.s3s)
	}
	s.s3s[o] = b
	return b, nil
}
