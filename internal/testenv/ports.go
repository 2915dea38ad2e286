package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Blocks lie below the range from which Linux takes ports for outgoing connections (32768 and up), so that no client socket can
// sit on a server's port, and end below 20000, because SeaweedFS derives further ports by adding 10000.
const (
	firstBlockPort = 10000
	endBlockPort   = 20000
	blockSize      = 16
)

// portBlock is a range of ports that no other test process uses. Its first port is kept listening as the mark of ownership, which
// the kernel takes back when the process dies; the other ports are for the server.
type portBlock struct {
	first int
	guard net.Listener
}

// reservePorts takes a random block all of whose ports are free.
func reservePorts() (*portBlock, error) {
	const blocks = (endBlockPort - firstBlockPort) / blockSize
	start := rand.IntN(blocks)
	for i := range blocks {
		first := firstBlockPort + (start+i)%blocks*blockSize
		guard, err := net.Listen("tcp", loopback(first))
		if err != nil {
			continue
		}
		if allFree(first+1, first+blockSize) {
			return &portBlock{first: first, guard: guard}, nil
		}
		if err := guard.Close(); err != nil {
			return nil, fmt.Errorf("release port %d: %w", first, err)
		}
	}
	return nil, errors.New("no free block of ports")
}

// port returns the n-th usable port of the block, counted from 0.
func (b *portBlock) port(n int) int { return b.first + 1 + n }

// release gives the block back.
func (b *portBlock) release() { _ = b.guard.Close() }

// allFree tells whether every port from first up to but without end can be listened on.
func allFree(first, end int) bool {
	for port := first; port < end; port++ {
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			return false
		}
		if l.Close() != nil {
			return false
		}
	}
	return true
}

// loopback is the address of a port on this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
