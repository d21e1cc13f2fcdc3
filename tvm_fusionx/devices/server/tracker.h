// This server's place at an RPC tracker (tvm/rpc/tracker.py has the protocol).
#ifndef FUSIONX_TRACKER_H_
#define FUSIONX_TRACKER_H_

#include <random>
#include <string>
#include <utility>

#include "connection.h"

namespace fusionx {

class Tracker {
 public:
  // `address` is what clients shall connect to, empty for the one the tracker sees.
  Tracker(std::string host, int port, std::string key, std::string address, int own_port)
      : host_(std::move(host)),
        port_(port),
        key_(std::move(key)),
        address_(address.empty() ? "null" : "\"" + address + "\""),
        own_port_(own_port) {}

  // Connects, unless connected, and says who this is.
  bool Connect() {
    if (connection_.IsOpen()) return true;
    connection_ = Connection::To(host_, port_);
    int32_t magic = 0;
    const std::string place = "[" + address_ + ", " + std::to_string(own_port_) + "]";
    bool known = connection_.IsOpen() && connection_.SendNumber(kMagic) &&
                 connection_.ReceiveNumber(&magic) && magic == kMagic &&
                 Ask(kUpdateInfo, ", {\"key\": \"server:" + key_ + "\", \"addr\": " + place + "}");
    if (!known) Disconnect();
    return known;
  }

  // Offers one session under a new key, which only the client that gets it knows.
  bool Offer() {
    match_key_ = key_ + ":0." + std::to_string(std::random_device()()) +
                 std::to_string(std::random_device()());
    return Ask(kPut, ", \"" + key_ + "\", [" + std::to_string(own_port_) + ", \"" + match_key_ +
                         "\"], " + address_);
  }

  // Asks whether the offer still stands; `taken` where a client has it.
  bool Check(bool* taken) {
    std::string answer;
    if (!connection_.SendText("[" + std::to_string(kPendingKeys) + "]") ||
        !connection_.ReceiveText(&answer)) {
      return false;
    }
    *taken = answer.find("\"" + match_key_ + "\"") == std::string::npos;
    return true;
  }

  void Disconnect() { connection_.Close(); }
  const std::string& match_key() const { return match_key_; }
  int number() const { return connection_.number(); }

 private:
  static constexpr int32_t kMagic = 0x2f271;
  // Of tvm.rpc.base.TrackerCode.
  static constexpr int kSuccess = 0;
  static constexpr int kPut = 3;
  static constexpr int kUpdateInfo = 5;
  static constexpr int kPendingKeys = 7;

  bool Ask(int code, const std::string& rest) {
    std::string answer;
    return connection_.SendText("[" + std::to_string(code) + rest + "]") &&
           connection_.ReceiveText(&answer) && answer == std::to_string(kSuccess);
  }

  std::string host_;
  int port_;
  std::string key_;
  std::string address_;
  int own_port_;
  std::string match_key_;
  Connection connection_;
};

}  // namespace fusionx

#endif  // FUSIONX_TRACKER_H_
