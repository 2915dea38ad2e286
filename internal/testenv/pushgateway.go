package testenv

import (
	"fmt"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
)

// NewPushgateway starts a Pushgateway that ends with the test, and returns its base address.
func NewPushgateway(tb testing.TB) string {
	tb.Helper()
	path, dir := Program(tb, "prometheus-pushgateway"), tb.TempDir()
	ports, err := reservePorts()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(ports.release)
	address := loopback(ports.port(0))
	p, err := startProcess(processSpec{
		Path: path, Args: []string{"--web.listen-address=" + address}, Dir: dir, Log: filepath.Join(dir, "pushgateway.log"), DeathSignal: syscall.SIGKILL,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.kill)
	if err := p.waitReady("Pushgateway", func() error { return answers("http://" + address + "/-/ready") }); err != nil {
		tb.Fatal(err)
	}
	return "http://" + address
}

// answers asks an address and wants a 200.
func answers(address string) error {
	client := http.Client{Timeout: startLimit}
	defer client.CloseIdleConnections()
	answer, err := client.Get(address)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, answer.Status)
	}
	return nil
}
