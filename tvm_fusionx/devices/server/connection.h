// A TCP connection that sends and receives whole messages, and closes itself.
#ifndef FUSIONX_CONNECTION_H_
#define FUSIONX_CONNECTION_H_

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace fusionx {

// Of a message of text; keys and tracker answers are far smaller.
constexpr int32_t kLargestMessage = 1 << 20;
// A peer that is there answers a handshake at once.
constexpr int kHandshakeSeconds = 10;
// A peer that is told of an error hangs up.
constexpr int kFinishSeconds = 1;

class Connection {
 public:
  Connection() = default;
  explicit Connection(int number) : number_(number) {}
  Connection(Connection&& other) noexcept : number_(other.Release()) {}
  Connection& operator=(Connection&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = other.Release();
    }
    return *this;
  }
  ~Connection() { Close(); }

  // Connects to `host`:`port`; check IsOpen().
  static Connection To(const std::string& host, int port) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found)) return {};
    Connection connection;
    for (addrinfo* at = found; at && !connection.IsOpen(); at = at->ai_next) {
      connection = Connection(socket(at->ai_family, at->ai_socktype, at->ai_protocol));
      if (!connection.IsOpen()) continue;
      connection.SetTimeout(kHandshakeSeconds);
      if (connect(connection.number_, at->ai_addr, at->ai_addrlen)) connection.Close();
    }
    freeaddrinfo(found);
    return connection;
  }

  bool IsOpen() const { return number_ >= 0; }
  int number() const { return number_; }

  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

  // Says that nothing more comes, and reads what the peer still sends: closing over unread bytes
  // would take back the last message, which tells the peer why.
  void Finish() {
    if (!IsOpen() || shutdown(number_, SHUT_WR)) return;
    SetTimeout(kFinishSeconds);
    char unread[4096];
    while (recv(number_, unread, sizeof unread, 0) > 0) continue;
  }

  // Makes sends and receives fail after so long; 0 waits for ever, as TVM's loop expects.
  void SetTimeout(int seconds) {
    timeval limit{seconds, 0};
    setsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(number_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  // Small messages go both ways all the time, so none must wait for the next.
  void SendAtOnce() {
    int on = 1;
    setsockopt(number_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(number_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }

  bool Send(const void* data, size_t count) {
    const char* next = static_cast<const char*>(data);
    while (count > 0) {
      ssize_t sent = send(number_, next, count, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      next += sent;
      count -= sent;
    }
    return true;
  }

  bool Receive(void* data, size_t count) {
    char* next = static_cast<char*>(data);
    while (count > 0) {
      ssize_t received = recv(number_, next, count, 0);
      if (received < 0 && errno == EINTR) continue;
      if (received <= 0) return false;
      next += received;
      count -= received;
    }
    return true;
  }

  // Numbers and lengths are little-endian on both sides: the machines that TVM runs on are.
  bool SendNumber(int32_t value) { return Send(&value, sizeof value); }
  bool ReceiveNumber(int32_t* value) { return Receive(value, sizeof *value); }

  bool SendText(const std::string& text) {
    return SendNumber(static_cast<int32_t>(text.size())) && Send(text.data(), text.size());
  }

  bool ReceiveText(std::string* text) {
    int32_t length = 0;
    if (!ReceiveNumber(&length) || length < 0 || length > kLargestMessage) return false;
    text->resize(length);
    return length == 0 || Receive(&(*text)[0], length);
  }

 private:
  int Release() {
    int number = number_;
    number_ = -1;
    return number;
  }

  int number_ = -1;
};

}  // namespace fusionx

#endif  // FUSIONX_CONNECTION_H_
