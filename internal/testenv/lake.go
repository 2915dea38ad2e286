package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lakeBucket is the table bucket that every lake has.
const lakeBucket = "analytics"

// Lake is a SeaweedFS process: an S3 server and an Iceberg REST catalog over the same bucket. Its maintenance worker has nothing to
// talk to, so that only the test changes tables.
type Lake struct {
	S3Endpoint string // http://host:port
	CatalogURI string // http://host:port
	Warehouse  string // s3://bucket
	Bucket     string
	AccessKey  string
	SecretKey  string
	Region     string
	// Namespace is a name that no other test uses. The namespace does not exist yet.
	Namespace string

	server *lakeServer
}

// Properties returns the settings with which iceberg-go opens the catalog and its files.
func (l *Lake) Properties() map[string]string {
	return map[string]string{
		"type": "rest", "uri": l.CatalogURI, "warehouse": l.Warehouse, "credential": l.AccessKey + ":" + l.SecretKey,
		"s3.endpoint": l.S3Endpoint, "s3.region": l.Region,
		"s3.access-key-id": l.AccessKey, "s3.secret-access-key": l.SecretKey,
	}
}

// SharedLake gives the test a namespace of its own on the shared lake. Other tests use the lake too: do not count its requests
// (use a Proxy) and do not stop it.
func SharedLake(tb testing.TB) *Lake {
	tb.Helper()
	lake, err := shared.lakeOfAll()
	if err != nil {
		tb.Fatalf("start shared lake: %v", err)
	}
	return lake.forTest()
}

// NewLake starts a lake that belongs to the test and is destroyed when it ends. Further arguments go to "weed mini" after ours.
func NewLake(tb testing.TB, extraArgs ...string) *Lake {
	tb.Helper()
	lake, err := startLake(extraArgs...)
	if err != nil {
		tb.Fatalf("start lake: %v", err)
	}
	tb.Cleanup(lake.server.destroy)
	return lake.forTest()
}

// forTest returns a copy with a namespace of its own.
func (l *Lake) forTest() *Lake {
	own := *l
	own.Namespace = "ns_" + randomName(6)
	return &own
}

// Pid returns the process id of a lake that this process started, or 0 when it is stopped or belongs to another process.
func (l *Lake) Pid() int {
	if l.server == nil {
		return 0
	}
	return l.server.pid()
}

// Kill9 kills a lake of the test's own at once.
func (l *Lake) Kill9(tb testing.TB) {
	tb.Helper()
	if l.server == nil {
		tb.Fatal("kill lake: it belongs to another process")
	}
	l.server.kill()
}

// Start starts a lake of the test's own again, on the same ports and data, and returns when it answers.
func (l *Lake) Start(tb testing.TB) {
	tb.Helper()
	if l.server == nil {
		tb.Fatal("start lake: it belongs to another process")
	}
	if err := l.server.start(); err != nil {
		tb.Fatalf("start lake: %v", err)
	}
}

// lakeServer owns the process behind a Lake.
type lakeServer struct {
	bin       string
	dir       string
	args      []string
	ports     *portBlock
	accessKey string
	secretKey string

	mu   sync.Mutex
	proc *process
}

// The ports of a block, by use.
const (
	lakeS3 = iota
	lakeCatalog
	lakeMaster
	lakeFiler
	lakeVolume
	lakeAdmin
	lakeMasterGRPC
	lakeFilerGRPC
	lakeVolumeGRPC
	lakeS3GRPC
	lakeAdminGRPC
)

// startLake starts a lake with credentials of its own.
func startLake(extraArgs ...string) (*Lake, error) {
	bin, err := cached("seaweedfs-"+seaweedVersion, "weed")
	if err != nil {
		return nil, err
	}
	dir, err := newDir("lake")
	if err != nil {
		return nil, err
	}
	ports, err := reservePorts()
	if err != nil {
		return nil, err
	}
	accessKey, secretKey := "test"+randomName(4), randomName(16)
	server := &lakeServer{
		bin: bin, dir: dir, ports: ports, args: slices.Concat(lakeArgs(dir, ports), extraArgs),
		accessKey: accessKey, secretKey: secretKey,
	}
	if err := server.start(); err != nil {
		server.destroy()
		return nil, err
	}
	return &Lake{
		S3Endpoint: "http://" + loopback(ports.port(lakeS3)), CatalogURI: "http://" + loopback(ports.port(lakeCatalog)),
		Warehouse: "s3://" + lakeBucket, Bucket: lakeBucket, AccessKey: accessKey, SecretKey: secretKey,
		Region: "us-east-1", server: server,
	}, nil
}

// lakeArgs gives every listener of SeaweedFS a port of the block. Its worker looks for the administration's gRPC port at the
// distance of 10000 and does not find it, because that port is set to another: so there is no maintenance behind a test's back.
func lakeArgs(dir string, ports *portBlock) []string {
	port := func(flag string, n int) string { return "-" + flag + "=" + strconv.Itoa(ports.port(n)) }
	return []string{
		"mini", "-dir=" + filepath.Join(dir, "data"), "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-tableBucket=" + lakeBucket,
		"-master.telemetry=false", "-webdav=false", "-admin.ui=false", "-s3.port.lance=0", "-master.volumeSizeLimitMB=512",
		port("s3.port", lakeS3), port("s3.port.iceberg", lakeCatalog), port("master.port", lakeMaster),
		port("filer.port", lakeFiler), port("volume.port", lakeVolume), port("admin.port", lakeAdmin),
		port("master.port.grpc", lakeMasterGRPC), port("filer.port.grpc", lakeFilerGRPC), port("volume.port.grpc", lakeVolumeGRPC),
		port("s3.port.grpc", lakeS3GRPC), port("admin.port.grpc", lakeAdminGRPC),
		"-filer.localSocket=" + filepath.Join(dir, "filer.sock"), "-s3.localSocket=" + filepath.Join(dir, "s3.sock"),
	}
}

// start runs the process and waits until the catalog lists the bucket's namespaces. The bucket comes last in SeaweedFS's own start,
// after the S3 server and the catalog listen.
func (s *lakeServer) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.exited() {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "data"), 0o700); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	proc, err := startProcess(processSpec{
		Path: s.bin, Args: s.args, Dir: s.dir, Log: filepath.Join(s.dir, "weed.log"), DeathSignal: syscall.SIGKILL,
		Env: []string{
			"AWS_ACCESS_KEY_ID=" + s.accessKey, "AWS_SECRET_ACCESS_KEY=" + s.secretKey, "TMPDIR=" + s.dir, "HOME=" + s.dir,
		},
	})
	if err != nil {
		return err
	}
	s.proc = proc
	return proc.waitReady("lake", s.ready)
}

// ready logs into the catalog and lists the namespaces of the bucket.
func (s *lakeServer) ready() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	catalog := "http://" + loopback(s.ports.port(lakeCatalog))
	answer, err := client.PostForm(catalog+"/v1/oauth/tokens", url.Values{
		"grant_type": {"client_credentials"}, "client_id": {s.accessKey}, "client_secret": {s.secretKey},
	})
	if err != nil {
		return err
	}
	var token struct {
		AccessToken string `json:"access_token"`
	}
	err = json.NewDecoder(answer.Body).Decode(&token)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("read token: %w", err)
	}
	request, err := http.NewRequest(http.MethodGet, catalog+"/v1/"+lakeBucket+"/namespaces", http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token.AccessToken)
	answer, err = client.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("list namespaces: %s: %s", answer.Status, body)
	}
	return nil
}

// pid returns the process id, or 0 when the server is stopped.
func (s *lakeServer) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.exited() {
		return 0
	}
	return s.proc.pid
}

// kill ends the process at once; its data is only in the test's folder, so there is nothing to shut down in order.
func (s *lakeServer) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.exited() {
		s.proc.kill()
	}
	for n := range blockSize - 1 {
		sockets, _ := filepath.Glob("/tmp/seaweedfs-*-" + strconv.Itoa(s.ports.port(n)) + ".sock")
		for _, socket := range sockets {
			_ = os.Remove(socket)
		}
	}
}

// destroy ends the process and removes its data.
func (s *lakeServer) destroy() {
	s.kill()
	s.ports.release()
	_ = os.RemoveAll(s.dir) // What stays is removed by a later sweep.
}
